"""A year in an hour: parts, segments, restarts and leader changes by the thousand, and nothing may have grown.

A soak goes through rounds (`plan`). Each does its share of the work on one cluster (`work`), then measures it beside a
cluster that was just made (`measuring`), so that a busy machine or a slow disk is seen on both and cancels out. At the
end the last rounds are compared with the first (`verdict`), and all of them are drawn (`picture`). `run` puts it
together.

The servers of a cluster are objects in one process of their own (`subject`, on `testing.Cluster`), and not a process
each: ten thousand starts of a Python process would take more than an hour by themselves. What a start does to disks,
lanes and peers is the same, and what a server that ended leaves behind in memory or descriptors is seen, too, as the
process lives on. The clients are in the process of the soak, so theirs is not counted.
"""
