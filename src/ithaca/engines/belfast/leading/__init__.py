"""What a leader of the ordering layer decides during its term, as pure cores: no clock, no I/O, no randomness.

* `keeping`: which shard has which lane, and whose disk counts.
* `taking`: the takeovers of lanes whose primaries are gone.
* `leader`: all of it, over `speculation.progress` and `speculation.planning`, with plain cuts while the order is free.
* `lane_slots`: what a lane's primary is told.

Soft state, made when the term begins: replicas join, and lanes report all that a new leader must know.

1. A shard has a lane as long as enough of its replicas are here to make what it takes durable: else every cut would
   wait for it, so it fails. One whose primary is gone is taken over; while the order is free it is closed.
2. Nothing that would close a lane is proposed while the order is fixed, but `TakeLane` and `FailLane`. A change of a
   shard waits until the order is free, which orders all that was delivered, and the order is fixed again behind it.
3. Idle means silent: nothing is proposed, and nobody is asked, while nothing is placed and nobody is in a hurry.
"""
