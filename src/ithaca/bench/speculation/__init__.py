"""`ithaca bench speculation`: the engine belfast in turns with scalog (SpecLog §6, Figures 7 to 17).

Read `followed` (what is measured of a record), `task` (the process that follows and computes), `lab` (two clusters with
their load and their tasks), then the experiments: `points` (one thing is varied) and `changes` (something happens in
the middle of a turn). `plot` draws either kind. `serving` runs an orderer whose windows have another length.
"""
