"""Intrusion detection for the internet of things: traffic of sensors, judged by their groups' moving statistics.

The application of SpecLog's evaluation (§5): collectors append what sensors send; a reading that is far above what its
group sent just before is an intrusion to look at. A group's sensors report to different collectors, so what came
"just before" is a question of the order between collectors, which the log answers.

Read `readings` (the records), `plain` (the rule), `job` (the same in Spark), `pipeline` (all of it).
"""
