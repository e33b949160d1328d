"""What a task does: from a range of positions to Arrow batches of about 1 MiB, without looking at records."""

from collections.abc import Iterator
from typing import Any

import ithaca
from ithaca.engines.tasks import Scan
from ithaca.model.errors import Lost, Trimmed
from ithaca.spark.limits import SPARK_BATCH_BYTES, SPARK_CHUNK_BYTES
from ithaca.spark.planning import LogPartition, Wanted
from ithaca.spark.staying import settle
from ithaca.wire.joined import joined
from ithaca.wire.positioned import PositionedBatch, PositionedRows, ScatteredBatch


def read_partition(partition: LogPartition) -> Iterator[Any]:
    """The partition's records as `pyarrow.RecordBatch`es; what is gone is left out if the query may lose data."""
    ranges = [(partition.start, partition.stop)]
    while ranges:
        start, stop = ranges.pop()
        position = start
        try:
            for chunk in _chunks(partition, start, stop):
                yield from _arrow(chunk, partition.wanted)
                position = int(chunk[-1].positions[-1]) + 1
        except (Trimmed, Lost) as error:
            if partition.fail_on_data_loss:
                raise
            if isinstance(error, Trimmed):
                left = [(max(position, error.first), stop)]
            else:
                left = [(max(position, error.stop), stop), (position, min(error.start, stop))]
            ranges += [(low, high) for low, high in left if low < high]
    settle()


def _chunks(partition: LogPartition, start: int, stop: int) -> Iterator[list[PositionedRows]]:
    target, wanted = partition.target, partition.wanted
    if target.path:
        if wanted.shards is None or 0 in wanted.shards:
            yield from _embedded_chunks(target.path, start, stop, wanted)
        return
    with Scan(
        target.bootstrap,
        start,
        stop,
        where=wanted.key_filter,
        shards=wanted.shards,
        chunk_bytes=SPARK_CHUNK_BYTES,
        timeout=target.timeout_s,
        local=target.local_reads,
        tls=target.tls,
        token=target.token,
    ) as scan:
        yield from scan


def _embedded_chunks(path: str, start: int, stop: int, wanted: Wanted) -> Iterator[list[PositionedRows]]:
    with ithaca.open(path, mode="r") as log, log.read_range(start, stop, where=wanted.key_filter) as records:
        chunk: list[PositionedRows] = []
        size = 0
        for batch in records.batches():
            assert isinstance(batch, PositionedBatch | ScatteredBatch)
            chunk.append(batch.stretch())
            size += chunk[-1].raw_bytes
            if size >= SPARK_CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk


def _arrow(chunk: list[PositionedRows], wanted: Wanted) -> Iterator[Any]:
    """The stretches of a chunk, joined to batches that are worth Spark's while."""
    group: list[PositionedRows] = []
    size = 0
    for stretch in chunk:
        time_us = stretch.batch.timestamp_us
        if (wanted.since_us is not None and time_us < wanted.since_us) or (
            wanted.until_us is not None and time_us > wanted.until_us
        ):
            continue
        group.append(stretch)
        size += stretch.raw_bytes
        if size >= SPARK_BATCH_BYTES:
            yield joined(group)
            group, size = [], 0
    if group:
        yield joined(group)
