"""What must hold in a simulated cluster, whatever its engine; docs/proof.md lists the rules by their names.

`servers` and `raft` look at a server after every step of it, `witness` at single calls while they happen, `images` at
copies of the disks. `order_times` is when each position was ordered. An engine adds rules of its own.
"""
