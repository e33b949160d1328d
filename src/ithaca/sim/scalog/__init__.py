"""What a world of the `scalog` engine has beyond that of any: its draws, its faults, its clients and its invariants.

`invariants` looks on after every step, `witness` at what the cores decide, `order_times` and `clocks` at time.
`administrator` changes shards, `members` orderers, `replacing` replicas, `publisher` publishes parts, `readers` read,
`guests` are short-lived handles and idle names, `spark_sink` drivers and tasks, `neighbours` who reads files. Faults of
their own: `aggregation`, `crowd`, `many_lanes`, `staged`, `storage_trouble`, `sudden`.
"""
