"""Bytes that leave the process: batches, frames, compression, key columns, Arrow.

A batch is the same bytes on the wire, on disk and in Arrow's memory, so nothing is re-encoded on the way from a
producer to Spark. Read `batch` first; `cutting` makes single records of it. `build` makes batches, `repeats` compares
two, `selection` is one of selected records only, with `keys` as the filter; `positioned` is a batch at its positions,
`joined` many as one, `arrow` the same memory for Arrow. `compression` is that of bodies, `frame` how messages and
batches share a connection, and `blocks` the memory that they are received into.

Invariants:

1. No bytes, however broken, make a decoder raise anything but a typed error or allocate more than a bound.
2. A body that passes its checksum is what the producer sent; a head that passes its checksum belongs to
   the lane and the LSN that were asked for.
3. Servers touch heads; only clients and filters touch columns; nothing touches single records on a server.
"""
