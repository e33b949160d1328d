"""What the clients of all engines share.

`deadline` has deadlines, `merge` streams of several shards in one order.

The synchronous twin: `portal` is the loop in a thread of its own, `outbox` how
appends get there and answers back, through `intake`. `sync_log` is generated from `model.interface.awaited` (`make
generate`); `sync_appends` and `sync_records` are the parts of it that are written by hand.
"""
