"""Programs that use the log as its users do, through the public interface alone.

`demo_cluster` tells a story in real processes: a cluster, producers, followers, a killed replica, its return.
Read it first; `demo_cluster_processes` are its processes, `demo_cluster_checks` its claims, `demo_cast` and
`demo_display` how processes are run and what one sees, `transactions` the records. `demo_embedded` is the same
without servers: a producer that is killed, and the log recovered.

Invariants, each checked at the end of every run:

1. Nothing acknowledged is lost by `kill -9`, and it is where its receipt says.
2. Nothing is doubled, although what was under way is sent again; each producer's records keep their order.
3. Every follower sees the same records at the same positions, and they are those that were produced.
4. No process is left behind.
"""
