"""The engine corfu, beside scalog where both do the same (CORFU §5, Figures 6 to 10).

`beside` has appends by sets of units, lone appends and reads; `tokens` what one sequencer hands out; `holes` how long
filling one takes; `outages` how long nothing is appended when a unit or the sequencer is killed. `asking` speaks to
servers as the client's own parts do; `plot` draws.
"""
