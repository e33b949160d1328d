"""Fraud monitoring: payments, judged as they come by what their user has done so far.

Gateways append payments; a user pays through any of them. Spark follows the log and keeps, for each user, running
statistics in the order of the log. A payment raises an alert when its amount is far above the user's mean, or when it
was made in another country shortly after the one before. An investigator then reads one user's payments alone: the
replicas select them by their key.

State, alerts and the number of the micro-batch go into the database in one transaction, so a batch that Spark repeats
after a crash changes nothing: what is in the database is exactly once.

Read `payments` (the records), `plain` (the rules), `job` (the same in Spark), `stream` (batch after batch), `store`
(the database), `pipeline` (all of it).
"""
