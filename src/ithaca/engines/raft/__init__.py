"""Raft with log sharing, as an engine (eBay, HotCloud 2019): one Raft group, and each payload once on each disk.

Every server has a *data log*, one lane with the same id everywhere, and a Raft log whose entries name *ranges* of it.
`replog` is the pure core: what is agreed on, and what a leader takes; `storage` keeps lane and Raft log in step;
`messages` is what is said, `server` and `client` are the shells. `health` is the verdict on a cluster. `engine` puts it
together, `name` is what it is called.
"""
