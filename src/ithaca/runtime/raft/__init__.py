"""Raft under an event loop: `driver` runs a `RaftCore`, `disk` makes entries durable, `ports` are what both need."""
