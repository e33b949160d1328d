"""The log as the driver sees it: one handle, its ends, and the positions that options stand for."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import ithaca
from ithaca.model.errors import InvalidInput, NotWritten, Trimmed
from ithaca.model.interface import ClusterLog, Log
from ithaca.spark.limits import SPARK_DRIVER_TIMEOUT_S
from ithaca.spark.options import Edge, ReadOptions, Target


def open_log(target: Target) -> Log:
    """The log, to be read; in a driver an answer is wanted soon, even if it is that nobody is there."""
    if target.path:
        return ithaca.open(target.path, mode="r")
    timeout_s = min(target.timeout_s, SPARK_DRIVER_TIMEOUT_S)
    return ithaca.connect(target.bootstrap, timeout=timeout_s, tls=target.tls, token=target.token)


@contextmanager
def driver_log(target: Target) -> Iterator[Log]:
    with open_log(target) as log:
        yield log


def driver_cores() -> int:
    """Cores that this process may use: Spark does not tell a data source how many its executors have."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shards_of(log: Log) -> tuple[int, ...]:
    """All that may hold records, finalized ones included."""
    return tuple(each.shard for each in log.admin.shards()) if isinstance(log, ClusterLog) else (0,)


def position_of(log: Log, edge: Edge) -> int:
    """The position that an end of the log, a time, or itself stands for."""
    if edge == "earliest":
        return log.first()
    if edge == "latest":
        return log.tail()
    if isinstance(edge, datetime):
        with log.subscribe(edge) as found:
            return found.position
    return edge


def check_start(log: Log, start: int, fail_on_data_loss: bool) -> None:
    """`Trimmed` when what comes at `start` is gone, unless that was said to be fine."""
    first = log.first()
    if start < first and fail_on_data_loss:
        raise Trimmed(
            f"position {start} was trimmed; the first one left is {first}: start there, or set failOnDataLoss to "
            "false to go on with what is left",
            first=first,
        )


def bounds(log: Log, options: ReadOptions) -> tuple[int, int]:
    """The half-open range of positions that a table has; only what is written, and not trimmed, is in it."""
    tail = log.tail()
    stop = tail if options.stop == "latest" else position_of(log, options.stop)
    name = "asOf" if options.is_as_of else "endingOffsets"
    if stop > tail:
        raise NotWritten(f"{name} is {stop}, and the tail is {tail}: use at most that, or latest", tail=tail)
    start = position_of(log, options.start)
    if start > tail:
        raise NotWritten(f"startingOffsets is {start}, and the tail is {tail}: use at most that, or latest", tail=tail)
    if isinstance(options.start, int) and start < stop:
        check_start(log, start, options.fail_on_data_loss)
        start = max(start, log.first())
    if start > stop and not isinstance(options.start, datetime) and options.start != "earliest":
        raise InvalidInput(f"the table would start at {start}, which is after its end, {stop}")
    return start, max(start, stop)
