"""The lanes of a replica on its disk, with the positions of their records.

`lane_store` has all of them: `held_lane` is one in a directory of its own, whose files are opened when they are needed,
`runs` its positions (`runs_file` their files, `runs_format` the bytes in them). Small lanes that are settled go into
packs: `packing` writes them, `pack` is one file, `packs` all of them, `packed_lane` a lane in one, `settled` which
lanes are where. `shard_reader` reads all lanes in the order of their positions, `shard_bytes` counts what they hold,
`quarantine` keeps what is damaged, `replica_meta` is who the replica is, `stored` reads all of it offline. `limits`
are bounds.
"""
