"""Many shards that are not there: `emulate` first, then `plan`; `process` is an emulator, `shards` what it is, `links`
its connections, `orderers` the real ordering layer under it.
"""
