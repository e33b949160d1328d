"""An aggregator: carries the reports of many replicas to the leader, and its news to them.

`server` is the process, `relay` what goes through it, `up` its link towards the leader.
"""
