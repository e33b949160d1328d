"""Reading: any replica of each shard, merged by position.

`reading` is one position, `records` ranges and subscriptions, `stream` one shard of them; `seen` remembers which shard
holds what. `scan` reads a lot, from the files of replicas on the same machine where there are some (`local`).
"""
