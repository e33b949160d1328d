"""Trading: a running regression between pairs of stocks, and a signal when a price leaves it.

After the high-frequency trading application of SpecLog's evaluation (§5). The stocks of a pair are quoted at
different exchanges, each of which appends to the log on its own; the regression pairs each price with the last one of
the other stock, so its result depends on the order between the exchanges, which the log fixes for everybody.

Read `ticks` (the records), `plain` (the regression), `job` (the same in Spark), `pipeline` (all of it).
"""
