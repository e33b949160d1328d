"""The servers of a cluster, each an object in one event loop: `OrdererServer`, `ReplicaServer`, `SpareServer`
and `AggregatorServer`. Wiring only.

A server performs what its cores decide (`raft`, `ordering`, `replica`) over the shells of `runtime`: it receives,
steps, performs, and reports back. It has one port for everything: its protocol, `GET /metrics`, `GET /health`.
The same objects run as processes (`process`) and several in one loop, for tests.

Invariants:

1. No protocol decision is taken here: who leads, what is ordered, what is acknowledged is the cores' to say.
2. What a server promises is on its disk first; a failed sync ends the server for good.
3. Whoever does not read, or asks for too much, is refused or cut off, and costs nobody else anything.
4. `stop` leaves nothing behind: no task, no thread, no connection, no lock.

Read `replica` first. Its parts: `replica_gateway` (what clients and peers ask), `replica_order` (the link to the
leader), `replica_disk` (lanes on the disk), `replica_feed` and `replica_copies` (lanes to and from peers),
`replica_streams` (reading). Then `orderer`: `orderer_directory`, `orderer_links` (Raft's messages), `orderer_machine`
(what is agreed), `orderer_leading` (one term of leading), `orderer_requests` (what clients ask), `orderer_joins` (what
replicas and spares say), `orderer_carried` (what aggregators say), `orderer_views`, all by way of `orderer_answers`;
`orderer_streams` (the news of replicas), `orderer_failures` and `orderer_spares` (silent replicas, and who takes their
places), `orderer_names` (names that nobody uses),
`orderer_group` (who orders), `orderer_status`. Then `spare`, which becomes a replica, and `aggregator`.
`order_route` is how all of them find the leader, `status` how they tell people, `process` how they run as programs.
"""
