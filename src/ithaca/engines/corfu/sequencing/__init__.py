"""The protocol of CORFU as pure cores (§2 of the paper): rows, units, the sequencer, projections, and what clients do.

The log's addresses are *rows*. A row holds one batch, or junk, or nothing yet, and is written once. A *projection* says
which chain of units has a row; projections follow one another as *epochs*, agreed on by Raft. The sequencer hands out
rows; a client writes its batch to the units of the row's chain, one after the other, and is done behind the last.

Read `projection` first, then `unit`, then `flows.appending`. `rows` has the arithmetic of positions, `entries` what a
row holds, `calls` what is asked and answered, `trims` and `placed` what a unit knows beside its rows, `sequencer` the
counter, `commands`, `state` and its `snapshot` what Raft agrees on, `limits` the bounds, `flows` everything that
clients, reconfigurers and a new sequencer do.

Invariants (tests cite them by number):

1. A row's bytes are decided at the head of its chain.
2. Complete means synced on the whole chain; only that is acknowledged, or read.
3. Nothing of an epoch is written once it is sealed, and what a unit lacks counts only while its epoch is Raft's.
4. Each projection follows one.
5. Linearizable: what was acknowledged is found by every read that starts later, and has a smaller position than every
   append that starts later.
6. A fill or the late writer: one of them wins, everywhere.
7. A session's batch is in the log once.
"""
