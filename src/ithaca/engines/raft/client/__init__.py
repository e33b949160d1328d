"""The handle of a cluster of this engine. Read `log` first.

`servers` finds the leader and asks it, over the connections of `links`; `producer` sends the batches of one session
again until each is settled, `appends` gathers what the handle appends into batches, `session` are named sessions;
`stream` and `records` iterate, `scan` reads files where it can, `admin` changes the group.
"""
