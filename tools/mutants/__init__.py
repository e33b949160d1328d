"""Mutation testing: small mistakes that nobody chose, put into a sample of the product's lines, and who notices.

    python -m tools.mutants                          # 300 mutants, by tests and by simulator seeds: hours
    python -m tools.mutants --by tests --limit 20    # the next 20 that no test has judged yet
    python -m tools.mutants --only ithaca.raft --survivors

`operators` says which mistakes, `sources` draws the sample, `probes` records which statement each test and each seed
executes, `judging` runs what reaches a mutant in a process that was forked with the heavy libraries loaded, and
`report` prints. Sources are never changed: `site.sitecustomize` has a module loaded from other code while it is
imported, in the process that is judged and in all that it starts. Everything is kept under `campaign-data/`.

Of our own, because mutmut works on a copy of the tree without a seeded sample, and cosmic-ray writes each mutant
into the sources and runs one fixed command for it: here a mutant meets only the tests that reach it, quickest first.
"""
