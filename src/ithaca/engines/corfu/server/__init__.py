"""The servers of the engine: `unit` keeps rows, `orderer` is a member of the Raft group that may hand out rows.

A cluster's file describes them as it does for other engines: the orderers are the Raft group, and one of them, which
the projection names, is the sequencer; a shard is a chain, and its replicas are the units of it, head first. `machine`
is what Raft agrees on, `unit_disk` writes what a unit accepts, `founding` has the first projection decided,
`sequencing` runs the sequencer, `caretaking` brings back units that were lost. `metrics` is what monitoring reads.
"""
