"""Seeded worlds: disks, networks and clocks that run the production code in one process (docs/proof.md).

A seed reproduces a run byte for byte: every draw comes from a seeded `random.Random`, time is a number that the
world advances, and nothing depends on the order of a set or on the hash of a string. Nothing but the command line
imports `sim`.

Whole clusters: `scheduler` is time, `loop` an event loop over it, `process` one process with its clocks, `network` and
`transport` a TCP between hosts, `disk` a disk in memory that forgets what was not synced (`inode` is one file of it),
`neighbours` the disks of other hosts as a reader sees them. `host` is a machine, `world` puts servers and clients on
machines, `clients` is what those do, `recorder` the history of it, `faults` what befalls them all, `configuration` what
a seed draws of all this. `run` takes a seed through trouble and healing to the checker. `rules` says what must hold,
`excuses` which errors a fault explains, and what must not be is a `violation`. `paths` counts what came up, `campaign`
runs many seeds. `latency` measures on simulated machines.

An engine adds its part: `engine` says what that is and finds it by the engine's name, `scanning` is what most of them
share. `scalog`, `belfast`, `corfu` and `raft` are these parts.
"""
