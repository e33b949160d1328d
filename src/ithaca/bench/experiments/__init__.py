"""Experiments on a cluster that runs: `experiment` first, then `reconfigure` and `failures`; `servers` are those that
are killed, `load` the open-loop load by its `schedule`, `timeline` what came of it, `answer` what is done about a
replica that failed, `plot` a picture of it all.
"""
