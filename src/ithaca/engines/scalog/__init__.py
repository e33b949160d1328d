"""Scalog: records are durable first, and ordered after, by cuts of what all shards have synced.

The pure cores: `ordering` (what is agreed on; begin with `ordering.lanes`, where two cuts give positions to the records
between them) and `replica` (what a storage server decides). Around them: `messages` (what servers and clients say),
`storage` (the lanes of a replica on its disk), `server` (orderers, replicas, aggregators) and `client`. `engine` is all
of it under one `name`, `health` the verdict on a cluster, `missing` what no disk has any more, `emulation` how replicas
speak, for benchmarks.
"""
