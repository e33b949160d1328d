"""A tiny cluster that was stopped, with every kind of file in it, to be damaged in copies; and how to look at those."""

import asyncio
import dataclasses
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from tests.server.raw_client import RawClient, batch_of

from ithaca.cluster.local import FILE
from ithaca.engines.scalog.messages.reading import Deliver, Subscribe
from ithaca.engines.scalog.storage.runs import Runs
from ithaca.model.config.text import dump_cluster
from ithaca.model.positions import LaneId
from ithaca.model.records import Buffer
from ithaca.protocol.failures import error_of
from ithaca.protocol.greeting import Failure, Finished
from ithaca.storage.segment import SUFFIX
from ithaca.testing import Cluster
from ithaca.wire.batch import lane_seed, parse

SEGMENT_BYTES = 1500
PAGE_ENTRIES = 8
"""Runs in a page: so few that a small lane has several pages."""

Row = tuple[int, bytes | None, bytes]
"""Position, key and value of a record."""


class Image(NamedTuple):
    """The directory of a cluster that was stopped, and what is in its log."""

    directory: Path
    rows: list[Row]

    @property
    def tail(self) -> int:
        return len(self.rows) + 1


@contextmanager
def small_pages() -> Iterator[None]:
    defaults = Runs.__init__.__kwdefaults__
    assert defaults is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(defaults, "page_entries", PAGE_ENTRIES)
        yield


@contextmanager
def running(directory: Path, *, orderers: int = 1) -> Iterator[Cluster]:
    """The cluster in a directory, with small segments: smaller than a file may say."""
    cluster = Cluster(directory, orderers=orderers)
    file = cluster.file
    cluster.file = dataclasses.replace(file, segment_bytes=SEGMENT_BYTES)
    try:
        with cluster:
            yield cluster
    finally:
        (directory / FILE).write_text(dump_cluster(file), encoding="utf-8")


def make_image(directory: Path) -> Image:
    """Two lives of a cluster: closed lanes of several segments and pages, and short ones that were open last."""
    rows: list[Row] = []
    for incarnation, count in ((1, 36), (2, 5)):
        with running(directory) as cluster:
            asyncio.run(_append(cluster, incarnation, count, rows))
    return Image(directory, rows)


async def _append(cluster: Cluster, incarnation: int, count: int, rows: list[Row]) -> None:
    """A batch to one replica, a batch to the other, and so on, each one waited for: each is a run of its own."""
    orderer = await RawClient.connect(cluster.file.orderers[0].address)
    replicas = [await RawClient.connect(place.address) for place in cluster.file.shards[0].replicas]
    lanes = [LaneId(0, replica, incarnation) for replica in (0, 1)]
    session = await orderer.open_session(f"s{incarnation}", lanes[0])
    random = Random(incarnation)
    next_seq = 1
    for at in range(count):
        number = len(rows)
        values = [b"%d of %d: " % (n, number) + random.randbytes(9) for n in range(1 + at % 3)]
        keys = [b"key %d" % number, None, b""][: len(values)]
        producer = (0, 0, 0)
        if at % 4 == 0:  # all in the lane of the first replica
            producer = (session.producer_id, session.epoch, next_seq)
            next_seq += len(values)
        batch = batch_of(*values, keys=keys, producer=producer)
        position = await replicas[at % 2].append(lanes[at % 2], batch)
        assert position == len(rows) + 1
        rows += [(position + n, keys[n], value) for n, value in enumerate(values)]
    for client in (orderer, *replicas):
        client.connection.abort()


def copied(image: Image, directory: Path) -> Path:
    shutil.copytree(image.directory, directory)
    return directory


def lanes_of(directory: Path, replica: int) -> Path:
    return directory / f"shard-0-replica-{replica}" / "lanes"


def segments_of(lane: Path) -> list[Path]:
    return sorted(lane.glob(f"*{SUFFIX}"))


def flip(path: Path, offset: int, mask: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)


async def _read_alone(cluster: Cluster, replica: int, tail: int) -> list[Row]:
    client = await RawClient.connect(cluster.file.replica(0, replica).address)
    try:
        client.connection.send(Subscribe(1, stop=tail), correlation=client.connection.next_correlation())
        rows: list[Row] = []
        while not isinstance((received := await asyncio.wait_for(client.unasked.get(), 20)).message, Finished):
            if isinstance(received.message, Failure):
                raise error_of(received.message)
            assert isinstance(received.message, Deliver)
            rows += _rows_of(received.message, received.payload)
        return rows
    finally:
        client.connection.abort()


def _rows_of(message: Deliver, payload: Buffer) -> list[Row]:
    rows: list[Row] = []
    offset = 0
    for item in message.items:
        batch = parse(payload, offset)
        offset += batch.total_bytes
        assert batch.belongs_to(lane_seed(item.lane))
        records = batch.records(item.position, 0, item.low, item.high)
        rows += [(record.position, record.key, record.value) for record in records]
    return rows


def read_alone(cluster: Cluster, replica: int, tail: int) -> list[Row]:
    """Everything below the tail, as one replica has it on its disk."""
    return asyncio.run(_read_alone(cluster, replica, tail))
