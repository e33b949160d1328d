"""Slots: an order that is fixed before, as pure cores (SpecLog §3, §4).

In SpecLog every shard owes exactly its quota of records in each cut, so that each can tell where its records will be
before anybody has agreed on it. Here a window *reserves* positions for each lane in each cut, its *slots*; a lane uses
the first of them, and the rest stay empty. Nothing is written for an empty slot, so quotas can be wide. A record is
delivered with its position when it is durable in its shard, and confirmed when its cut is ordered.

No clock, no I/O, no randomness; `step(event) -> list[effect]` where a core has effects.

* Slots: `windows` is the arithmetic, `kept` what is kept until it is trimmed, so that a position's owner can say that
  it is empty.
* The primary: `placement` with its `placing_events`; `reports`, what replicas acknowledge and the leader is told.
* What is agreed on: `entries` with their codec, `outcomes`; `order`, which applies what is about slots; `state`, the
  whole state machine; `packed`, how slots stand in its snapshot.
* `disks`: whose acknowledgements and promises count.
* The leader: `progress`, which cuts are done and who lags; `planning`, which window is next, with `quotas`; `mode`,
  whether slots are worth it.
* A failed primary: `takeover`, a replica's and the leader's part; `places`, where the batches of a copy belong.
* The client: `delivery` with its `delivery_events`.

**How this extends `scalog`.** `state.BelfastState` is scalog's `OrderingState` with an `order.SlotOrder` beside it
that works on the same `LaneTable`, so that lengths are known once. Entries of this package go to the slots; a plain
`Cut` is applied while the order is free and is void otherwise; `Publish` takes the tail while the order is free, and
otherwise waits at positions of its own; `OpenLane`, `CloseLane`, `RemoveReplica`, `AddReplica` and `Finalize` are
refused for a shard with an open lane while the order is fixed, and a second lane of a shard always; everything else is
scalog's.
`SlotsOrdered` with its runs becomes an `OrderedCut` of the next number, which replicas take as they take any other.
Its entries have tags of their own, and its snapshot is an array of scalog's, the slots and the publications that wait:
neither format of `scalog` changes, and an orderer of `scalog` refuses what it does not know by name. A window that
shares out its slots unlike the last is refused by a state that is full; a free one never is, so that a full order
goes on without slots.

**Why disks and not starts.** A replica that starts again has all that it acknowledged, unless its disk was emptied, and
a number of its start does not tell which. If an emptied one could promise, a record that was delivered from it and from
the primary would be on none of the f+1 that a takeover asks; the model in the tests finds that. Nobody but the order
can say whose disk is the one that acknowledged: the primary that knew is gone by then. So it is agreed on, once for
each disk and before anything of it counts, and not with every start; a restart costs no entry.

**What holds**, and the tests cite these numbers:

1. A position is predicted alike by everybody, from ordered windows alone; what is ordered gets the predicted one.
2. A slot is used once, or never. A batch has consecutive slots of one cut. Windows and publications do not overlap.
3. An entry that lost a race is void as a whole. Attempts, the tail and the number of the next cut never fall.
4. A real cut is ordered only when it is done for every open lane with slots in it: passed, and durable to its end.
5. A closed lane orders nothing more, and keeps its slots, empty, to the end of the last window that lists it.
6. A publication has positions of its own behind the windows ordered before it, and is ordered when they are.
7. A free window is dense; it ends only when all that was written in it is ordered.
8. Without `FailLane` nothing that was delivered changes its place, whoever restarts.
9. A watermark that was told stays true: no record appears below it.
10. What is confirmed was delivered before, at that position and under that attempt; `Failed` comes before anything
    that differs, and after the confirmation of all before it.
11. Idle means silent: with nothing placed and nobody in a hurry nothing is passed, reported or proposed.
12. Only disks that the order names acknowledge and promise, one of each replica while its shard has a lane to lose.
13. What waits is bounded: batches without slots, windows ahead, cuts in a report and in an entry.

Read `windows` first, then `order` and `placement`.
"""
