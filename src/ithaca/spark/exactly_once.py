"""Exactly once, by prepared appends: tasks make their rows durable, and one entry of the order publishes all of them.

A part that no commit publishes was never there: tasks that are repeated, or run twice, or whose driver died leave
parts behind, which are aborted or expire. A commit publishes under (writer, number of the batch), and only the first
one counts: a batch that is repeated after a restart finds that it was published, whatever its rows are now. Whole
batches are compared and never rows, whose order within a partition may change from one run to the next.

Who the writer is: `writerId`, else the query, which keeps its id for as long as it keeps its checkpoint. Spark tells
tasks of the query, not the driver, so their messages bring it along. A table has no writer, since no other job comes
back for it, and is published once by its parts alone, unless `writerId` and `batchId` name them: then the job may be
repeated as a whole.

A task keeps its part from expiring while it writes. From its end to the commit nobody of ours runs: Spark plans and
commits in processes of their own, and keeps messages to itself until all tasks are done. So a finished part is given as
long as `partTtl` says.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark import TaskContext

import ithaca
from ithaca.client.bootstrap import parse_bootstrap
from ithaca.engines.connecting import engine_at
from ithaca.engines.tasks import BatchPart
from ithaca.model.engine import Feature, engines_with
from ithaca.model.errors import InvalidInput, PublishConflict, Unsupported
from ithaca.model.parts import Part
from ithaca.spark.options import Target, WriteOptions
from ithaca.spark.rows import log_batches
from ithaca.spark.sink import NO_BATCH, Delivery, Written

QUERY_PROPERTY: Final = "sql.streaming.queryId"
"""Spark's own name for it, inside tasks."""


class ExactlyOnce(Delivery):
    """Prepared in tasks, published by the driver.

    The driver makes it before anything runs: `Unsupported` where the cluster's engine has no prepared appends.
    """

    def __init__(self, options: WriteOptions, *, is_stream: bool) -> None:
        _check_engine(options.target)
        self._options = options
        self._is_stream = is_stream
        self._writer = options.writer_id

    def write(self, rows: Iterator[Any]) -> Written:
        target = self._options.target
        query = self._query() if self._is_stream else ""
        with BatchPart(target.bootstrap, timeout=target.timeout_s, tls=target.tls, token=target.token) as part:
            for batch in log_batches(rows, self._options.batch_bytes, self._options.compression):
                part.put(batch)
            finished = part.finish(self._options.part_ttl_s)
        return Written(0, None, query) if finished is None else Written(finished.length, finished.to_bytes(), query)

    def commit(self, messages: Sequence[Written], batch: int) -> None:
        queries = {message.query for message in messages}
        if not messages:
            return  # no task, no rows
        if len(queries) > 1:
            raise InvalidInput(f"tasks of several queries were committed together: {', '.join(sorted(queries))}")
        owner = queries.pop()
        writer = self._writer or owner
        key = self._options.batch_id or 0 if batch == NO_BATCH else batch
        parts = _parts(messages)
        with self._connected() as log:
            if not writer:
                log.publish_once(parts)
                return
            try:
                log.publish(key, parts, writer=writer, owner=owner)
            except PublishConflict as error:
                raise _explained(error, key) from error
            log.abort(parts)  # those of a batch that was published before; the ones published now stay

    def abort(self, messages: Sequence[Written], batch: int) -> None:
        parts = _parts(messages)
        if parts:
            with self._connected() as log:
                log.abort(parts)

    def _connected(self) -> ithaca.ClusterLog:
        target = self._options.target
        return ithaca.connect(target.bootstrap, timeout=target.timeout_s, tls=target.tls, token=target.token)

    def _query(self) -> str:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
        if not query:
            raise InvalidInput(f"Spark does not say which query a task belongs to ({QUERY_PROPERTY}): it is too new")
        return query


def _check_engine(target: Target) -> None:
    engine = asyncio.run(engine_at(parse_bootstrap(target.bootstrap), target.timeout_s, target.tls))
    if Feature.PREPARED not in engine.features:
        able = " or ".join(engines_with(Feature.PREPARED))
        raise Unsupported(
            f"exactly once needs {Feature.PREPARED.value}, and the engine of this cluster, {engine.name}, has none: "
            f"set delivery to atLeastOnce, or use a cluster with the engine {able}"
        )


def _parts(messages: Sequence[Written]) -> list[Part]:
    return [Part.from_bytes(message.part) for message in messages if message.part is not None]


def _explained(error: PublishConflict, key: int) -> PublishConflict:
    return PublishConflict(
        f"batch {key} of writer {error.writer!r} is refused, since batch {error.key} is published already"
        + (f" by query {error.owner}" if error.owner else "")
        + ": go on with that query's checkpoint, or choose another writerId",
        writer=error.writer,
        key=error.key,
        owner=error.owner,
        position=error.position,
        count=error.count,
    )
