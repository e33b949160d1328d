"""What the clients of all engines share.

`engine_log` is the handle that an engine gives, with the settings of `settings`, and `consuming` those of named
consumers; `requesting` and `fetched` are most of one, for engines that append and read by requests. `bootstrap` are the
addresses to begin with, `asking` asks one server how it is, `users` changes who may use a cluster, `scan` reads a range
in chunks, from `lane_files` too, `extents` says how many records a range holds, `inflight` counts the bytes under way.
`handle_life` says whether a handle can be used, `trim_seen` when a trim is done. `deadline` has deadlines, `merge`
streams of several shards in one order, `ahead_records` iterates over what was read, `candidates` are servers that are
asked one after the other. `appending` is what appends through sessions have in common, `streaming` what subscriptions
have whose servers push.

The synchronous twin: `portal` is the loop in a thread of its own, `outbox` how
appends get there and answers back, through `intake`; `sync` is its face.
"""
