"""`ithaca bench regress`: this tree against another commit of it, interleaved, with a verdict that knows the noise.

Each tree runs a cluster of its own, and an `agent` that loads it: the same file for both, so that what is measured is
the log and not the measurement. `workloads` says what is appended and read, `trees` where the other tree comes from,
`comparing` takes turns, `verdict` judges. What counts first is CPU per operation, of all processes together: on a
shared machine rates vary several times as much.
"""
