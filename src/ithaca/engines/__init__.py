"""The engines of a cluster, each in a folder of its own: how records get their places in the one order.

`scalog` has the order behind the data, in cuts; `belfast` is scalog with an order that is fixed before; `corfu` has a
sequencer, and chains of units; `raft` one Raft group whose entries name ranges of a data log. `engine` is what every
engine offers (read it first; docs/architecture.md has "How to add an engine"), `registry` finds them by their names,
`connecting` is `ithaca.connect`, `tasks` are handles of programs that read or append a lot and end, `emulation` is how
benchmarks pretend to be storage servers. No engine imports another one, but for `belfast`, which is made of `scalog`.
"""
