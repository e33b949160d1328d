"""An orderer: Raft agrees on entries, `ordering` applies them, and whoever leads takes reports and makes cuts.

Read `server` first. `machine` is what is agreed on, `leading` one term of leading with `failures` and `spares` (silent
replicas, and who takes their places), `names` (names that nobody uses), `parts`, `retention` and `time`, which have
`ports` in common. `requests` is what clients ask, `users` what they ask about users, `joins` what replicas and spares
say, `carried` what aggregators say, `views` who waits for a view, all by way of `answers`. `streams` are the news of
replicas, `telling` tells a replica that joins where its shard stands, `aggregators` who reports through whom, `status`
how it tells people. What is to be done is decided by `ordering.decisions`: here it is done.
"""
