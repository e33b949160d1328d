"""A cluster: `target` is the one that is measured, `producers` and `reader` the processes that work on it, `append`,
`shards`, `read` and `memory` the measurements, `loopback` the ceiling for reading, `trimmer` what keeps disks from
filling. `contest` compares shapes of clusters, `tls` a cluster with TLS and one without, `users` one with users and one
without.
"""
