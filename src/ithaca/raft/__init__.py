"""Raft, as a pure core: `RaftCore.step(event) -> list[Effect]`. No clock, no I/O, no randomness of its own.

The paper is Ongaro and Ousterhout, *In Search of an Understandable Consensus Algorithm* (sections as §n);
pre-vote, membership changes, transfer and read index follow Ongaro's thesis. Payloads are opaque bytes.

**The shell's loop.** Start a core from what the disk holds (`storage.raftlog`; the shell gives the snapshot
found there to the state machine). Then, for each event in turn, call `step` and perform the effects of the
list in its order:

1. `RoleChanged`, `Proposed`, `ReadReady`, `Transferring`, `RefusedRequest`: tell whoever asked.
2. `Apply`, `Restore`, `TakeSnapshot`: hand to the state machine, in order. They never wait for a `Persist`
   of the same list, and stand before it.
3. `Send`: hand to the transport, which may lose, delay, repeat and reorder.
4. `Persist`: write and sync. **Everything behind it in the list is performed only when it is synced**, and
   so are the persists before it, of this list and of earlier ones; persists are written in the order of
   their numbers. What stands before it need not wait: that is how a leader's appends overlap its own disk.
   When it is synced, perform the rest of the list, then step `Persisted(sequence)`. A persist with nothing
   in it writes nothing, and only waits. Meanwhile the loop goes on stepping other events.

A snapshot may refer to data outside of it (`Settings.fetches`). A follower then drops what is not committed, and asks
the shell to fetch that data (`FetchSnapshot`, said once the drop is durable); the snapshot is installed, and answered,
when the shell says `SnapshotFetched`. What an entry has outside of it is the shell's business: the core only counts it
(`Settings.weigh`).

A persist that fails for lack of space may be repeated; after any other failure the server stops for good,
and none of what waited is ever performed. A server that lost its disk is a new server with a new number.

Time: step `Tick(now_ms)` before other events as time passes, at the latest at `deadline_ms`. Reads: on
`ReadReady(index)` wait until `index` is applied, then read. Proposals: an entry is chosen when `Apply` shows
it at its index with its term; another term there means that it lost. Only the leader takes requests: others
refuse with a hint, and forwarding is the shell's business. Messages are of the servers that the transport says;
what no server would say that follows the protocol is passed over, and `RaftCore.objection` says why.

**What holds**, checked by `tests.raft.raft_network` after every step:

1. Election safety: at most one leader per term (§5.2).
2. Leader append-only: a leader never overwrites or deletes its own entries (§5.3).
3. Log matching: logs with the same term at an index are the same up to there (§5.3).
4. Leader completeness: what is committed in a term is in the logs of the leaders of all later terms (§5.4).
5. State-machine safety: all servers apply the same entry at an index, in order, once per boot (§5.4.3).
6. Durability: committed entries are on the disks of a majority of voters, and no crash takes them back.
7. Reads are linearizable: a read's index covers every entry that was committed anywhere before it was asked
   for (thesis §6.4).
8. Promises follow the disk: no vote or acceptance leaves a server before it is synced (§5.1, figure 2).
9. One uncommitted configuration at a time, and only after the leader committed in its term (thesis §4.1).

Read `messages` and `events` first, then `core`; `node` is the state, `persistence` the order of effects, `election`,
`follower` and `leader` the roles; `log`, `membership`, `progress`, `pacing`, `reads` are their parts, `limits` their
bounds; `chunks` is a snapshot on its way, `objections` what stands between them and the wire.
"""
