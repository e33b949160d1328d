"""Who may use a cluster, as a pure state that every engine carries in its own, and what follows from it.

`table` is that state: commands in (`model.security.users`), one outcome for each out. `tokens` is how a token looks, is
hashed and is checked; `rights` says whether a user may do something; `names` whom names of sessions, writers and
consumers, and tokens of parts, belong to; `caller` is who asks a server, with all that; `bucket` says how fast a user
may go on; `limits` are bounds of what servers do.

What holds, and the tests cite these numbers:

1. Equal commands, from any prefix or snapshot on, give equal tables and outcomes.
2. A token is in no table, entry, snapshot, message or log: only its hash is.
3. At most two tokens of a user are valid, and a command that comes twice, one right after the other, does what it does
   once.
4. Two users never have one name of a session, a writer or a consumer, and never one part.
5. What is there is bounded: a user or a prefix that would be too many is refused.
"""
