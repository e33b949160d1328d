"""What the log costs, as ratios to what this machine can do at all with the same bytes, in the same run.

The disk of a shared machine varies tenfold from one minute to the next, so a rate alone says little. Everything that is
compared is measured in turns, round by round; a ratio is formed within a round, and the median over the rounds is what
is printed. Read `measure` first; `ceiling` is the bare write and sync, `bare` the file it writes, `replicated` the bare
client with two servers, `embedded` the log against the ceiling, `memory` what the log holds on to, `place` where it all
happens.

`cluster` measures a cluster, `experiments` disturbs one that runs, `emulation` has many shards that are not there,
`spark` reads with Spark, `objects` has state on the log, `raft` compares stores of the engine raft, `corfu` the engine
corfu and `speculation` the engine belfast beside scalog, `consumers` measures named consumers and groups, `keeping`
appends beside a backup, `restoring` takes it back, `regress` compares this tree with another commit, `compare` Ithaca
with other systems: `foreign` starts them, `kafka_broker` is one of them, `jars` fetches what they need. `profiles`
shows where the time goes, `costs` what processes cost, `children` and `server_processes` start processes and end them.

Invariants:

1. A log is compared with a ceiling over the same kind of file: recycled segments with a file that was
   written before, fresh segments with a file that grows.
2. Payload is random and does not compress; it is made before the clock starts.
3. Data lies in a fresh directory, which is removed afterwards, whatever happened; so are all processes.
4. Producers are counted within the same window of time, and never outside it.
5. A cluster that runs already is neither trimmed nor stopped.
"""
