"""Seeded worlds: disks, networks and clocks that run the production code in one process.

A seed reproduces a run byte for byte: every draw comes from one `random.Random`, time is a number that the
world advances, and nothing depends on the order of a set or on the hash of a string. `sim` may import
everything; nothing imports `sim`.

Read `disk` first: a disk in memory that forgets what was not synced (`inode` is one file of it). Then
`raft_network`: seeds that send a Raft group through bad days. `raft_world` holds the group, its network and
its time; `raft_checker` checks the properties of `ithaca.raft` after every step.
"""
