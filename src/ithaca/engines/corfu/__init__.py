"""CORFU: a sequencer hands out positions, and clients write them through chains of write-once units (TOCS 2013).

`sequencing` is the protocol, clients included, without anything that waits: read it first.
"""
