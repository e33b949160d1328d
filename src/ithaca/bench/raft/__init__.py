"""The engine raft against what it could have been, and beside scalog (eBay §4, Figures 7 and 8).

`sharing` compares log sharing with the naive store, by payload and batch, in rate and in bytes on the disk; `commits`
switches group commit and pipeline off; `beside` has scalog in the same run; `absent` has a follower that missed a lot,
and a leader that is killed. `variants` are the servers that are measured, `serving` runs one of them, `group` three;
`plot` draws.
"""
