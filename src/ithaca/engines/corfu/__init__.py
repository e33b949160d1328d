"""CORFU: a sequencer hands out positions, and clients write them through chains of write-once units (TOCS 2013).

`sequencing` is the protocol, clients included, without anything that waits: read it first. `storage` is how a unit lies
on its disk, `server` and `client` are the shells, `messages` is what is said, `health` the verdict on a cluster.
`engine` puts it together, `name` is what it is called.
"""
