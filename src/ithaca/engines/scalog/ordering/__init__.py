"""The ordering layer of the `scalog` engine, as a pure core: records are durable first, and ordered after.

The idea is Scalog's (§3, §4): replicas report how much of each lane they have synced; the ordering layer
agrees on *cuts*, the durable length of every lane; two consecutive cuts give positions to the records
between them. So its load depends on lanes and reports, never on records. Design §5 is this package's
contract; the consensus below it is `ithaca.raft`, which is not imported: entries are bytes to it.

Two objects and a folder, no clock, no I/O, no randomness:

* `state.OrderingState`, on every server: `apply(index, entry) -> list[Outcome]`, a pure function of the
  committed entries.
* `leader.CutProposer`, on the leader alone: reports in, cuts to propose out. Soft state: it is made from the
  committed state when leadership begins, and dropped when it ends.
* `decisions`, on the leader alone: who is removed, added, evicted and moved, and what expires.

**The shell's part.** Each payload that Raft applies: `decode_entry`, `apply`, stream the outcomes to the
shards they concern (a cut as `of_shard`), answer whoever asked, then `CutProposer.applied(outcomes, own=...)`,
where *own* means that the entry's term is the one this leader leads. `propose` after every `receive` and
`applied` and at `deadline_us`; what it returns goes to Raft as `encode_entry`, and if Raft refuses it, to
`CutProposer.refused`. Raft's no-ops and configurations are not applied here. A replica that connects gets
`summary` and `cuts_since`; then the stream. It reports at once when its shard's epoch changes. Reads of this
state (tail, view, sessions) are linearizable after Raft's read index.

**What holds**, and the tests cite these numbers:

1. Determinism: equal entries, from any prefix or snapshot on, give equal states and outcomes, and so
   positions; only applying assigns them, never proposing (§4.1).
2. Positions are dense from 1; a record gets one, once, and it never changes (§4.1).
3. Inside a cut lanes are ordered by (shard, replica, incarnation), inside a lane records by LSN (§4.1).
4. Durable first: what is ordered was synced by f+1 replicas of the shard's present configuration (§3,
   §4.4.2). A cut that was proposed under an earlier configuration orders nothing of that shard.
5. Lengths never fall: whatever is repeated, reordered, late or stale changes nothing (§3 "need not be
   delivered in FIFO order").
6. Closed is closed: a closed lane, a finalized shard and a shard short of replicas order nothing more, and
   their length is what earlier entries ordered (§4.4).
7. Linearizability: a record whose append began after another's was acknowledged, which is after that one's
   cut was applied, is ordered behind it (§4.2).
8. Sessions: an epoch only rises; a session has one home, and leaves it only when no record of it can be
   ordered there any more; what expired never comes back (design §5 "Exactly once"). A name goes only when that is
   asked for, or when it was idle for as long as the cluster's file says; none makes room for another.
9. Incarnations: each boot of a replica gets one lane, a higher incarnation than all before; a repeated or
   late request neither opens nor closes another (design §2).
10. Cuts are kept until f+1 replicas of each shard in them have synced their runs, or that shard is gone; a trim
    does not shorten that, since who holds a record must know its position to know that it was trimmed.
11. The order's time and the trim point never fall; the time a leader says moves as time does, and leaps only where
    nobody knew it, ahead, to what a majority of the voters' clocks have reached. Versions of the view and epochs of a
    shard only rise.
12. Self-clocking: with nothing moved nothing is proposed; never more cuts in flight than the pipeline
    holds, never two within `order_interval` (design §5).
13. Prepared parts: cuts pass over them; one is published once, whole, with all others of its publication and in
    their order, after f+1 replicas of the present configuration had synced it, and never after it was dropped. Of
    a writer's keys each is published at most once, and none behind a higher one (design §5 "Prepared appends").

Read `entries` and `outcomes` first, then `state`; `lanes` has the cut arithmetic, `closed_lanes` those that are done,
`shards` the view, `room` how large all of it may be; `sessions`, `lost`, `prepared` and `snapshot` are what they say;
`cut_slices` are cuts for some shards. On the leader: `leader`, then `reports` and `retention`; `clock` is its time,
`liveness` whom it misses, `assignment` which aggregator a shard is given, and `decisions` what it does beside ordering.
"""
