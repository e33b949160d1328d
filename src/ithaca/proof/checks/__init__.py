"""The rules, by what they are about: `records` (which record is where), `times` (linearizable), `deliveries`, `ranges`,
`order_time` (starts by time), `told` (what comes with a record), `consumers` (named ones, and groups), `trims` and
`finals` (what is left at the end).
"""
