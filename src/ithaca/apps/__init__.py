"""Programs that use the log as its users do, through the public interface alone.

`demo_pipeline` is the main one: payments into a cluster, fraud alerts by Spark, analytics on finalized shards, a
picture. Its parts are `demo_pipeline_processes`, `demo_pipeline_view`, `demo_pipeline_plot` and the package `fraud`.
`alerts` tells of fraud before the order is final, and `speculative` has the other applications of that kind.
`demo_home` is where a demo keeps its data, `running_hash` how readers compare what they saw. Pipelines to read are
packages: `marketplace`, `intrusion`, `fraud`, `trading`; `pipelines` is what they share, and says how they are made.

`demo_cluster` tells of crashes in real processes: a cluster, producers, followers, a killed replica, its return.
`demo_cluster_processes` are its processes, `demo_cluster_checks` its claims, `demo_story`, `demo_cast` and
`demo_display` how it is told, how processes are run and what one sees, `demo_follower` who reads along, `transactions`
the records. `demo_embedded` is the same without servers: a producer that is killed, and the log recovered. Its
processes are in `demo_embedded_processes`.

Invariants, each checked at the end of every run:

1. Nothing acknowledged is lost by `kill -9`, and it is where its receipt says.
2. Nothing is doubled, although what was under way is sent again; each producer's records keep their order.
3. Every follower sees the same records at the same positions, and they are those that were produced.
4. No process is left behind.
5. What Spark computes is what plain Python computes.
"""
