"""The applications of SpecLog's §5 on `ithaca.speculation`, with SQLite as their database.

A task applies each record as soon as it is durable: the new state of its group of sensors, its user or its pair of
stocks is written to the database, together with what was there before. Alerts are told once the record's place is
final. When a speculation fails, the database gets back what was there before, newest first; when the task dies, its
next start does so.

Read `desk` (the database), `rules` (the three applications) and `run` (`ithaca demo speculation`).
"""
