"""What a world of the engine `scalog` has beyond that of any engine; `engine` puts it together.

`configuration` is what it draws, `paths` the code that its campaigns must reach, `hosts` who runs where. Faults and
load: `storage_trouble` (full disks, changed names), `used_up_descriptors` (no file and no connection for a while),
`part_room` (little room for parts), `lane_churn` (lanes that come and go all the time), `lost_runs` (positions that
only peers still have), `bad_moments` (damage to what was just synced, death before a sync), `connection_flood` (clients
that take all connections), `one_silent` (a replica of two that stands still, while appends must get on), `scanning` (a
range from a replica's files), `meddling` (what no client asks for). Rules: `invariants` after every step, `witness` at
single calls, `order_clock` by the true time, `aggregation` once all is mended.
"""
