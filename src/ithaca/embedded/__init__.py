"""The embedded log: a shared log in a directory, without a server. The first engine.

One process writes, any number of others read along. There is one lane, so a record's position is its LSN plus one. Read
`engine` first: it is the log without a face; `log` and `records` are its synchronous face, `aio` and `aio_records` its
asynchronous one. `opening` is `ithaca.open`, `directory` says what makes a directory a log and who writes it. `scan`
reads forward, `follower` reads along with another process, `retention` trims by itself, `expiry` lets idle consumers
go, `stats` and `verify` look at a log from outside.

Invariants:

1. A receipt is given only for records that are synced (unless durability is "os").
2. At most one handle in the world writes a directory; a forked child's copy of it does nothing at all.
3. Readers in other processes see what was synced, and nothing else.
"""
