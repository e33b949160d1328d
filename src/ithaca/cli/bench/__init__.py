"""`ithaca bench ...`: `bench` puts the commands together; `cluster`, `emulate`, `experiments`, `spark`, `consumers`,
`objects`, `raft`, `corfu`, `speculation`, `compare`, `regress` and `keeping` (beside a backup) wire one measurement
each, `options` and `report` are what they share.
"""
