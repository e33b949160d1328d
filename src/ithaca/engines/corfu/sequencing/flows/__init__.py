"""What clients, reconfigurers and a new sequencer do, step by step (the client's side of Figure 4 in the paper).

A flow is written as a generator: it yields what it wants done, is sent what came of it, and returns its result.
`flow.Flow` makes a `step(event) -> effects` of it. Nothing in here waits, so the same flows run in models, in the
simulator and in a client.

Read `appending` first. `flow` is what a flow can want; `knowledge` what a handle knows of the cluster, and how it asks
under one epoch, and `patience` for how long; `settling` completes a row or makes it junk; `reading` reads rows and the
tail, `stretching` reads many complete rows at once, `locating` says where rows lie on a reader's machine;
`reconfiguring` seals an epoch and has the next one decided;
`opening` opens sessions; `beginning` is what a new sequencer does before it answers; `contending` is appending without
one, `placing` writing at rows of one's own choice; `trimming` lets rows go; `rebuilding` has units copy what those had
whose places they took.
"""
