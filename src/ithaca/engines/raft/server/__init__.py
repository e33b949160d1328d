"""A server of this engine: a member of the Raft group, with the whole log on its disk. Wiring only.

Read `server` first. `machine` is what is agreed on, `leading` one term of leading, `requests` what clients ask,
`rights` what that takes, `reading` what is read here, `cargo` what travels beside Raft's messages, `copying` how a
follower gets what a compaction point refers to, `retention` and `idle` what goes by itself, `status` how it tells
people.
"""
