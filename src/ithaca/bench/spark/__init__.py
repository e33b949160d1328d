"""Spark: `scan` reads the log against `baseline`, what Spark can do at all, and `kafka`, its own Kafka source with a
broker; `copying` are streaming copies.
"""
