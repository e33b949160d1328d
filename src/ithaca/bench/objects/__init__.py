"""State on the log against the log itself: commands, multi-puts and versions in turns with plain appends and reads.

`smr` has commands of many clients by replicas, starts from snapshots (CORFU §5.3, Figure 10), and with `holding` the
memory of a replica; `store` has puts and gets of several keys (Figure 9), mixed ones (Scalog §6.5.1), and with
`mirrors` reads by processes; `versions` puts and gets by shards (Scalog §6.5.2). `place` has the logs they run on,
`engines` puts engines beside each other, `plot` draws their rates.
"""
