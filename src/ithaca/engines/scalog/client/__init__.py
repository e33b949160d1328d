"""The client of a cluster: one handle per program, to all shards and the ordering layer.

The idea (design §5, Scalog §3–4): batches go straight to a lane's replica and come back with positions; reads and
subscriptions go to any replica of each shard and are merged by position; what only the order knows (the tail, views,
sessions, the trim point) is asked of the ordering layer's leader. Everything runs on one event loop without locks.

**What holds**, and the tests cite these numbers:

1. An append is answered once: with its position, with an error that says it did not happen, or with one that says
   that the outcome is unknown. Nothing waits longer than its deadline.
2. Exactly once: a batch belongs to a session, has its number for good, and is sent again as the same bytes until it is
   known to be ordered or known never to be; the numbers of a session are dense and sent in order.
3. What one task submits through one lane keeps its order.
4. Bytes under way are bounded per handle, received ones per shard and subscription.
5. A read never misses what was acknowledged before it began; that nothing is there is the leader's word.
6. Subscriptions deliver by position without gaps; with a filter, everything that matches.
7. Bytes are checked against the lane they claim to be of; what does not check out is asked of another replica.

Reading order: `log` is the handle, `context` what its parts share; `order` (with `orderer_search`) and `replicas` are
its ways out, over `links`. Then `append`, `read` and `admin`.
"""
