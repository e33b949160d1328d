"""A storage server: scalog's, with slots.

`server` is the wiring, `disk_number` says which disk it has, `links` are the connections to the leader and to
primaries, `gateway` takes what others say, `speculators` are those that are sent what is durable, `followers` the peers
that say what is. `promises` is what a replica has promised by its disk, `spare` a storage server that no shard needs.
"""
