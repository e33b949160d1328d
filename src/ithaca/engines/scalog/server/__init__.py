"""The servers of the engine: `orderer`, `replica` (with the spare that becomes one) and `aggregator`.

`move` and `watch` are what all do that report to the leader, `limit_uses` what each uses of its limits.
"""
