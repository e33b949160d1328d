"""The face of the synchronous twin of a cluster's log.

`log` is generated from `model.interface.awaited` (`make generate`); `appends`, `records` and `speculation` are parts of
it that are written by hand.
"""
