"""Real processes under real faults: kills, pauses, partitions, bad disks, power loss (docs/proof.md).

A run is a cluster of processes on this machine, clients in processes of their own that write down what they asked and
were told, and a plan of faults. At its end the cluster must heal, everything is read once more, the replicas'
directories are dumped, and `proof.checker` judges the history.

Read `plan` first (what is broken when; pure), then `run`, which does it, and `outcome`, which judges it.
`cluster_under_test` is the cluster, of any engine: its directory, its `keeper` (a process with the supervisor of
`ithaca up`), how it is. Between the servers, and between them and their clients, is `proxy`, our own network; under the
servers are `disks`, if a disk is to fail. `faults` has the faults, `clients` those who use the cluster meanwhile;
`crowd` keeps them running, `people` makes them users if the cluster has some, and `sightings` are records as they write
them down.

`soak` is another kind of run: no faults to survive, but a year's wear in an hour.

Invariants:

1. A plan is a function of its seed, the faults chosen and the cluster's shape.
2. At no time are more servers harmed than the promises allow, unless the fault is one that everything survives.
3. A fault is written down only once it was seen to work; one that does not ends the run without a verdict.
4. What became of an append is `info` until it is known.
5. No process, mount or loop device outlives a run, however it ends.
"""
