"""Ithaca beside what a user would pick instead: the same work, the same durability, the same machine, the same rounds.

`catalogue` names the `systems` and the `workloads`. A `system` says what is durable when it acknowledges, starts, and
says how clients reach it; `work` is what clients do, each in a process of its own, and `team` those of one system.
`open_loop` appends when a batch is due, and `histogram` counts latencies. `run` has all of them take turns, `kept` is
what they finished, `estimate` says how long it takes; `summary` forms medians, and ratios within rounds; `page`, with
`curves`, and `table` show them.

A system that cannot be had on a machine is in the report with the reason, as is one that failed.
"""
