"""Batch after batch of speculative events: what Spark computes is pending until it is confirmed."""

from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from ithaca.apps.alerts.store import Alert, AlertStore, Step
from ithaca.apps.fraud.payments import SCHEMA
from ithaca.spark import from_json

LIMIT_CENTS: Final = 60_000
"""Payments of more are told."""


class AlertStream:
    """A query that runs until it is stopped."""

    def __init__(self, store: AlertStore) -> None:
        self._store = store
        self.batches = 0
        self.taken_back = 0

    def start(self, spark: SparkSession, bootstrap: str, checkpoint: Path) -> StreamingQuery:
        """Judge the log from its beginning."""
        reader = spark.readStream.format("ithaca-speculation").option("bootstrap", bootstrap)
        stream = reader.option("startingOffsets", "earliest").load()
        writer = stream.writeStream.foreachBatch(self.take).option("checkpointLocation", str(checkpoint))
        return writer.queryName("alerts").start()

    def take(self, frame: DataFrame, batch: int) -> None:
        """One micro-batch; nothing is done with one that is in the database already."""
        if self._store.has(batch):
            return
        frame.persist()
        payments = from_json(frame.where("event = 'delivered'"), SCHEMA, keep=("number", "position"))
        large = payments.where(sf.col("amount_cents") > LIMIT_CENTS)
        found = large.select("number", "position", "user", "amount_cents").collect()
        others = frame.where("event <> 'delivered'").select("number", "event", "position").collect()
        frame.unpersist()
        steps = [Step(number, "delivered", row[0], Alert(*row)) for number, *row in found]
        self.taken_back += self._store.commit(batch, [*steps, *(Step(*row) for row in others)])
        self.batches += 1
