"""What the pipelines share: a place to run in, producers, Spark, a result store, and claims that are checked.

A pipeline is a package beside this one (`marketplace`, `intrusion`, `fraud`, `trading`) with the same four files: what
the records are and a seeded generator of them; `plain`, the computation in plain Python; `job`, the same in Spark; and
`pipeline`, which appends, computes both ways and compares. Each is small: read `marketplace` first.

`run` is the command: `stage` gives it a place, with a `spark` of its own and `patience` for a busy machine; `feed` runs
the producers, whose records are `events`; `store` keeps results, and `claims` are what is checked.

1. The same seed gives the same records, whatever process makes them.
2. What Spark computes is compared with plain Python exactly: sums are whole numbers, never floating point.
3. Where records of several producers meet, the log's order decides, and both computations follow it.
"""
