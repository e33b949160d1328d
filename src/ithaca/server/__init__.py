"""The servers of a cluster, each an object in one event loop: `OrdererServer` and `ReplicaServer`. Wiring only.

A server performs what its cores decide (`raft`, `ordering`, `replica`) over the shells of `runtime`: it receives,
steps, performs, and reports back. It has one port for everything: its protocol, `GET /metrics`, `GET /health`.
The same objects run as processes (`process`) and several in one loop, for tests.

Invariants:

1. No protocol decision is taken here: who leads, what is ordered, what is acknowledged is the cores' to say.
2. What a server promises is on its disk first; a failed sync ends the server for good.
3. Whoever does not read, or asks for too much, is refused or cut off, and costs nobody else anything.
4. `stop` leaves nothing behind: no task, no thread, no connection, no lock.

Read `orderer` and `replica` first; modules that begin with the same word are their parts. `status` is what both
tell people, `process` is how they run as programs.
"""
