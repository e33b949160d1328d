"""An online marketplace: what visitors do is a log, and yesterday's shards are analysed while today's fill.

The example of Scalog's introduction (§1, §5): web servers append what visitors view, put into carts and buy. When a
shard is finalized it never changes again, so analytics read it without locks, and its replicas have no appends to
serve beside. Computed are visitors by hour, sales, and which products are bought together.

Then the day's orders are placed on a store in the same log, where stock does not suffice (`ithaca.objects`).

Read `activity` (the records), `plain` (what is computed), `job` (the same in Spark), `orders` (carts and stock),
`pipeline` (all of it).
"""
