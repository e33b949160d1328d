"""How a unit lies on its disk.

```
meta         identity, epoch, whether it is sealed, what was trimmed (`storage.checked_file`)
lane/        every row in the order in which it came: a place entry, and the batch or, for junk, a no-op behind it
rows         the sorted index of rows (`row_index`): blocks of (row, LSN), each with its checksums
sessions     the last batches of sessions, up to the last block of the index
```

`unit_store` puts them together: read it first. `stored` tells what a stopped unit holds. `rows` and `sessions` hold
nothing that the lane does not: when one of them is missing or damaged both are made again from there.

Invariants:

1. A row is found after any crash if a sync has returned for it, and never holds anything else.
2. A seal, an install or a trim is in `meta` only when every row that was accepted before it is synced.
3. Memory is bounded whatever the number of rows: blocks are read when they are needed.
"""
