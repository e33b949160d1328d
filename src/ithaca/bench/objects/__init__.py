"""State on the log against the log itself: commands, multi-puts and versions in turns with plain appends and reads.

`smr` has commands of many clients by replicas, and starts from snapshots (CORFU §5.3, Figure 10); `store` has puts and
gets of several keys (Figure 9, and Scalog §6.5.1); `versions` puts and gets by shards (Scalog §6.5.2). `place` is the
log they run on, `plot` draws their rates.
"""
