"""Alerts before the order is final: Spark judges payments as soon as they are durable, and tells what is final.

`foreachBatch` over a speculative reader: rows for payments over a limit are computed at once and kept as pending; they
become alerts when their places are confirmed, and go when a speculation fails.

Read `store` (the database), `stream` (batch after batch), `pipeline` (all of it).
"""
