"""What the servers of all engines share. A server is an object in one event loop, and wiring only.

A server performs what its cores decide (`raft`, and those of its engine) over the shells of `runtime`: it receives,
steps, performs, and reports back. It has one port for everything: its protocol, `GET /metrics`, `GET /health`.
The same objects run as processes (`process`) and several in one loop, for tests.

Invariants:

1. No protocol decision is taken here: who leads, what is ordered, what is acknowledged is the cores' to say.
2. What a server promises is on its disk first; a failed sync ends the server for good.
3. Whoever does not read, or asks for too much, is refused or cut off, and costs nobody else anything.
4. `stop` leaves nothing behind: no task, no thread, no connection, no lock.

`process` is how servers run as programs, `options` what they run on, `life` how one begins, listens and ends, `greeter`
what it says of itself first, `status` how it tells people, `directory` which engine a directory belongs to. `answering`
is a server that only answers requests; `connection_tasks` are what has to wait on behalf of a connection,
`received_batch` is the batch of an append. `readable` is how far a server can be read, `filtering` evaluates filters,
`selecting` delivers what they select, `position_waits` are those who wait for a position, `leader_waits` those who wait
for a leader; `consumers` is what a leader does for named consumers; `audit` writes down who came;
`users` is how clients are held to their rights; `raft_host` is Raft with its store, links and
members, for whatever state machine it agrees on.
"""
