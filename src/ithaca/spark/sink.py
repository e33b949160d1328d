"""Rows into the log: `frame.write` and `frame.writeStream`, `format("ithaca")`.

How rows get there is a `Delivery`: what tasks do, and what the driver does once all of them are done. At least once
is plain appends: a task that is repeated appends again. Spark collects messages by partition, so a commit knows the
order of the partitions.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ithaca.engines.tasks import BatchAppends
from ithaca.spark.options import WriteOptions
from ithaca.spark.rows import log_batches
from ithaca.spark.staying import settle

NO_BATCH: Final = -1
"""The number of the batch where a table is written, and not a stream."""


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What one task has to say: how many records it wrote, the part that holds them, and for which query."""

    records: int
    part: bytes | None = None
    query: str = ""


class Delivery(ABC):
    """How rows reach the log."""

    @abstractmethod
    def write(self, rows: Iterator[Any]) -> Written:
        """In a task: take a partition."""

    @abstractmethod
    def commit(self, messages: Sequence[Written], batch: int) -> None:
        """In the driver: all tasks are done, and these are their messages, by partition."""

    @abstractmethod
    def abort(self, messages: Sequence[Written], batch: int) -> None:
        """In the driver: some task, or the commit, has failed. What was published stays."""


class AtLeastOnce(Delivery):
    """Appends, acknowledged before a task ends."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, rows: Iterator[Any]) -> Written:
        options = self._options
        target = options.target
        with BatchAppends(target.bootstrap, timeout=target.timeout_s, tls=target.tls, token=target.token) as appends:
            for batch in log_batches(rows, options.batch_bytes, options.compression):
                appends.put(batch)
            return Written(sum(receipt.count for receipt in appends.finish()))

    def commit(self, messages: Sequence[Written], batch: int) -> None:
        """Everything is there already."""

    def abort(self, messages: Sequence[Written], batch: int) -> None:
        """What was appended stays, as it was acknowledged."""


class TableWriter(DataSourceArrowWriter):
    """One job."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def write(self, iterator: Iterator[Any]) -> Written:
        written = self._delivery.write(iterator)
        settle()
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._delivery.commit(_present(messages), NO_BATCH)
        settle()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._delivery.abort(_present(messages), NO_BATCH)


class StreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch after the other."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def write(self, iterator: Iterator[Any]) -> Written:
        written = self._delivery.write(iterator)
        settle()
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._delivery.commit(_present(messages), batchId)
        settle()

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._delivery.abort(_present(messages), batchId)


def _present(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """Those of tasks that succeeded."""
    return [message for message in messages if isinstance(message, Written)]
