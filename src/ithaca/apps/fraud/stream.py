"""Alerts while payments come: micro-batch after micro-batch of the log, judged, and committed with its number."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ithaca.apps.fraud import job
from ithaca.apps.fraud.payments import SCHEMA
from ithaca.apps.fraud.plain import Alert, UserState
from ithaca.apps.fraud.store import FraudStore
from ithaca.spark import from_json


@dataclass(frozen=True, slots=True)
class Judged:
    """What one micro-batch has brought."""

    batch: int
    records: int
    last_position: int
    alerts: list[Alert]
    lag_s: float
    """From when its newest payment was appended until it was judged and committed."""


class FraudStream:
    """A query that runs until it is stopped; `tell` hears of each batch, in Spark's thread."""

    def __init__(self, store: FraudStore, tell: Callable[[Judged], None]) -> None:
        self._store = store
        self._tell = tell

    def start(self, spark: SparkSession, bootstrap: str, checkpoint: Path, batch_records: int) -> StreamingQuery:
        """Judge the log from its beginning, at most so many records at a time."""
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(batch_records), "minPartitions": "2"}
        stream = spark.readStream.format("ithaca").option("bootstrap", bootstrap).options(**options).load()
        writer = stream.writeStream.foreachBatch(self.take).option("checkpointLocation", str(checkpoint))
        return writer.queryName("fraud").start()

    def take(self, frame: DataFrame, batch: int) -> None:
        """One micro-batch; nothing is done with one that is in the database already."""
        if self._store.has(batch):
            return
        payments = from_json(frame, SCHEMA, keep=("position", "timestamp"))
        known = [(*state[:3], Decimal(state.squares), *state[4:]) for state in self._store.states()]
        states = frame.sparkSession.createDataFrame(known, job.STATE)
        users = job.by_user(job.judge(payments, states)).collect()
        alerts = sorted(Alert(*alert) for user in users for alert in user.alerts)
        records = sum(user.records for user in users)
        self._store.commit(batch, records, alerts, [UserState.of(user.state) for user in users])
        if users:  # the first batch of a log that is still empty has none
            lag_s = time.time() - max(user.newest_us for user in users) / 1e6
            self._tell(Judged(batch, records, max(user.last_position for user in users), alerts, lag_s))
