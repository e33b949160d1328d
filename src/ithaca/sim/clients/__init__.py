"""The clients of a simulated cluster: real handles in processes of their own, and what each does with them.

`connecting` is how all of them get a handle. `producers` append, `readers` read, `administrator` changes shards,
replicas and orderers; `consumers` are programs of one named consumer, `groups` members of one group, and `taking` what
of both the history has. What an engine may have beside them: `publishers` prepare parts and publish them,
`spark_drivers` do as Spark's exactly-once sink does, `session_churn` opens, leaves and expires sessions,
`name_claimant` takes names until there is no room, `edge_reader` reads where the log begins and ends, and `outsiders`
are users who may do little, and then nothing.
"""
