"""Appending: batches go straight to a lane's replica, and come back with positions.

`appends` first: `accumulator` makes batches, `producer` sends those of one session, `home` is the lane that it appends
to, with `policy`, `placement` and `nearest` (which lane) beside them. `session` are named
ones; `parts` and `part_writer` prepare appends.
"""
