"""The log that one Raft group agrees on, without keeping it: ranges of a data log (eBay §3.2). Pure.

An entry of Raft's log is a *range* of the data log or a control entry (`entries`). What committed entries add up to is
`LogState` (`state`): how long the log is (the *cursor*), where it begins, and which sessions there are (`sessions`).
`Placing` (`placing`) is a leader's side: which batches it takes, and which range they make. `idle` says which sessions
expire because nobody uses them.

A position is an LSN plus one. The bytes of a range are in the lane of every server that has the range's entry; that
they get there first, and leave last, is the business of `storage`.

What holds:

1. Ranges are dense: each begins where the one before ends, and none is empty.
2. A batch is in one range, as a whole.
3. Control entries act when they are committed, in the order of the log; what a leader takes goes by its whole log.
4. What every server has applied up to the same entry is the same state, to the byte of a snapshot.
5. A session's batches are in the log once each, in the order of their numbers, none behind an opening of a higher
   epoch.

Read `entries` first, then `state`.
"""
