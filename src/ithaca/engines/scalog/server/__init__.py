"""The servers of the engine: `orderer`, `replica` (with the spare that becomes one) and `aggregator`.

`losses` has records declared lost; `route` is how servers find the leader, `move` and `watch` what all do that report
to it, `limit_uses` what each uses of its limits, `rights` what each message of a client takes.
"""
