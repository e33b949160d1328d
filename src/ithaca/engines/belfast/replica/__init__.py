"""A storage server's decisions: scalog's core, and slots for the lane of which this replica is the primary.

`events` is what goes in and comes out beside scalog's, `core` the rest. The shell performs what comes out as it does
that of scalog, and says `GroupHanded` once for all that it wrote in one turn.

1. A batch is written when it has its slots, and not before; until then it waits, bounded, in the order of the lane.
2. A follower acknowledges to the primary what it has synced, on the disk that it names, and no more.
3. What was not written of a lane that closes is not of it: nobody has it, and whoever sent it is told.
"""
