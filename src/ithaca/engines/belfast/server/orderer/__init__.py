"""An ordering server: scalog's, with another state machine (`machine`), another leader (`leading`), and slots.

`server` is the wiring, `streams` tells primaries their slots, `joins` lets replicas in, `requests` answers clients,
and `publishing` remembers whose publications are not ordered yet.
"""
