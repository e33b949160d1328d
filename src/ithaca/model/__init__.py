"""The words of Ithaca as types: positions, records, receipts, errors, limits, settings. No I/O.

Everything else imports this package, and it imports nothing of ours. Read `positions` first, then `records`; `users`
are who may do what; `errors` prints the whole error tree; `limits` names every bound; `interface` is the contract that
every engine fulfils, in its synchronous and asynchronous form.

What people write: `addresses`, `paths`, `units` (durations and sizes), `config` (settings), `security` (who is who).
What there is: `engine` (what an engine is), `view` (shards, replicas, addresses), `cut` (a cut as a vector), `quorum`
(how many servers), `server_place` (which one), `health` (how a cluster is). What is asked and told: `parts` (prepared
appends), `consumers` and `groups`, `speculation`. Rules: `arguments` (what callers
get wrong), `decoding` (what broken bytes raise), `limit_use` (how full a
limit is), `trim_pace` (how fast age may trim).
"""
