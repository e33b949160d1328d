"""A cluster on this machine: its servers as processes, kept running, looked after and taken down.

```
D/cluster.toml      what the cluster is (`model.config.cluster`); written once, then only read
D/lock              held by the supervisor
D/operator.token    the operator's, where the cluster has users and no TLS
D/supervisor.json   its process, and each server's: process id, state, restarts
D/orderer-1/ ...    the data of each server, D/shard-0-replica-1/ and so on
D/logs/NAME.log     what each server printed; NAME.log.1 is what came before
```

Read `layout` first (names and places), then `local` (the directory), then `supervisor`, which keeps any set of programs
running and knows nothing of clusters; `running` brings the three together, here or in a process of its own. `status`
asks servers how they are, and says it in words; `vitals` is what they count and hold. `state` is `supervisor.json`,
`log_files` and `log_reader` are the logs as they are written and read, `ports` looks whether anybody listens.
`temporary` is a cluster for a while, `operator_token` makes one that has users. `server_metrics` asks a server
what it counts over HTTP. `certs` is a small authority, `limits` are the bounds of processes. While a cluster runs,
`shards` adds shards, `autoscaling` does so as the load asks for it, `replicas` and `orderers` change servers, and
`units` starts storage units.

Invariants:

1. A directory has at most one supervisor.
2. No server outlives its supervisor, however that ends: the kernel kills them (`server.process`).
3. A server that fenced itself is not started again in place.
4. Nothing is started unless everything can be: the file agrees, and every port is free.
"""
