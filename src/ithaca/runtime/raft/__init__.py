"""Raft under an event loop: `driver` runs a `RaftCore`, `disk` makes its entries durable."""
