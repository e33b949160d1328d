"""What the servers and clients of the engine say to each other.

Read `numbers` first: its table says who sends what to whom. The messages themselves are in modules of their own, by
what they are about: `appending`, `reading` and `places` (clients and replicas), `order`, `requests` and `listing`
(clients and orderers), `reporting` (replicas and the leader), `aggregation` (aggregators), `copying` (replicas among
themselves), `losing` (operators and the leader, the leader and replicas).
"""

from ithaca.engines.scalog.messages import numbers as numbers  # which makes them known
