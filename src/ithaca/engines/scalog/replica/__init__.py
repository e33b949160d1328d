"""A storage server's decisions, as a pure core: what to accept, write, report, acknowledge, settle and serve.

The idea is Scalog's data layer (§3, §4.2, §4.3; design §2 "incarnation", §5): a replica appends what clients
send to its own lane, keeps a copy of every other lane of its shard, reports how much of each it has synced,
and learns positions from cuts. Consensus, disks and sockets are elsewhere; `core.ReplicaCore` is
`step(event) -> list[Effect]` with no clock, no I/O and no randomness, so that production and simulation run
the same object.

**The shell's part.** Perform the effects of a list in its order; those that take time (disk, peers) go on in
the background and are answered by the event that their docstring names. `Write` is performed in the order of
the effects per lane, and never waits. Nothing is acknowledged by the shell on its own account. No effect may fail when
it is performed: one that does ends the server, for core and store have parted.

**What holds**, and the tests cite these numbers:

1. Nothing is accepted before this boot's lane was opened by an ordered entry and made on the disk.
2. Nothing is acknowledged before a cut covers it, and what is acknowledged has the position the cut gave it.
3. A report never says more than was synced, and lengths of one boot never fall.
4. The ordered length is authoritative: a closed lane is cut to it or completed from a peer, never kept longer
   and never called complete while it is shorter; before the close is known nothing is truncated.
5. A batch of a session is accepted once: it continues the session, or gets the answer of the one it repeats,
   or a typed error; a batch that is refused because its lane closed was not ordered and never will be.
6. The readable limit never passes a record of this shard that is ordered and not on this disk, nor a run
   that is not known. A position is never made up: runs are skipped only where a trim that is known here covers
   them, and then nobody is told where those records were.
7. Self-clocking: idle means silent; no more than `REPORTS_OUTSTANDING_MAX` reports wait for their cut, but
   for repeats (`REPORT_INTERVAL_S`).
8. A part is written in the order of its places, each once, and is nowhere read before it is published. It is dropped
   when the order says so, never otherwise, and once sealed it is cut or completed to its length like a closed lane.
9. What the shell cannot take is refused before a step is taken: of each lane at most `RUNS_UNSYNCED_MAX` runs are noted
   and not synced. Those for which there is no room are not known here until there is: 6 holds for them.

Read `events` first, then `core`, `standing` for what it is to its shard, and `facts` for what others may know of it.
Its parts: `appends`, the own lane, with `sessions`; `staging`, prepared parts; `lanes`, what is here of each lane, with
`positions` and `settling`, which complete it, and `settled`, those that are complete; `joining`, what the order says of
all of them; `readable`, how far they can be read; `reporting`, what the ordering layer is told.
"""
