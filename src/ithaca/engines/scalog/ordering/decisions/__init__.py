"""What the leader decides beside the order itself: pure cores of one term, by facts that its shell gathers.

Each is made when leadership begins and dropped when it ends. They have no clock: time is an argument. They say what is
to be done as *effects*, and the shell (`server.orderer`) does it in that order, and tells what came of it. Whatever
they have ordered names what it presumes, an incarnation, an epoch or a time, so that a decision that is late or taken
twice does no harm.

`failures` is who is removed because it is silent, `availability` whose lanes are closed because nothing of them is
ordered, and who gets none; `spares` who takes its place, and when a learner is added; `joins` who may join as which
replica; `reporting` who reports through which aggregator; `names` which sessions and writers are idle, and go; `losses`
which records may be declared lost; `cluster_file` what the cluster's file asks for and is not agreed yet. When prepared
parts expire, and when they are sealed, is in `prepared.expiry` and `prepared.finishing`.
"""
