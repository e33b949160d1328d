"""Bugs on purpose: each must be found by the simulator's seeds, or the proof has a hole (docs/proof.md, "Planted
bugs").

`python -m tests.planted` (`make planted`) hunts for them. `bug` is what one is, `catalogue` has all of them, by what
they are about: `client`, `clocks`, `connections`, `lanes`, `names`, `order`, `parts`, `raft`, `replacing`, `replica`,
`shards`, `storage`, `told`. `hunting` runs seeds with one of them, in an interpreter of its own (`mutant`); `table` has
the seeds that caught each when it was last hunted.
"""
