"""The engines of a cluster, each in a folder of its own: how records get their places in the one order.

`scalog` is the one that there is. `connecting` is `ithaca.connect`. No engine imports another one.
"""
