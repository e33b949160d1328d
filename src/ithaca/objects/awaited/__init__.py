"""The shells of `ithaca.objects`, awaited: the source of `blocking`. Read `follower` first, then `replica` (whose
commands under way are a `proposal`). `store` and `versions` stand on it; `snapshots` says where snapshots are kept,
`catalogue` which objects a log holds; `opening` opens and closes, `waiting` is what waits.
"""
