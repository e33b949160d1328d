"""Commands for clusters: `up` (and down), `serve`, `status`, `logs`, and what changes one that runs: `shard` (with
`losses`), `replicas`, `orderer`, `session`, `writer`, `user`, `unit`, `sequencer`, `autoscale`. `certs` makes a small
authority, whether there is a cluster or not. `target` says which cluster is meant, `listing` prints lists, `serving` is
`serve` for those who start many servers.
"""
