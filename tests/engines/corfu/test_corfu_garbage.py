"""Nonsense over the wire, to units and to the servers of the Raft group, one of which hands out positions.

It is refused, nothing of it is in the log, and everybody else goes on.
"""

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.runtime.echo import raw

import ithaca
from ithaca.engines.corfu.messages import Decide, WriteRow
from ithaca.engines.corfu.name import NAME
from ithaca.engines.corfu.sequencing.calls import (
    Fence,
    GetTail,
    Install,
    LocateRows,
    Read,
    ReadRows,
    Seal,
    TakeRow,
    TakeTokens,
    TrimRows,
    Want,
)
from ithaca.engines.corfu.sequencing.commands import TrimLog
from ithaca.engines.corfu.sequencing.limits import ROW_MAX, STRETCH_BYTES_MAX, UNITS_MAX
from ithaca.model.addresses import parse_address
from ithaca.model.view import Address
from ithaca.protocol.codec import encode_message, known_types
from ithaca.protocol.failures import error_of
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, VERSION_MIN, Failure, GetStatus, Hello, StatusIs
from ithaca.runtime.connection import OnlyAnswers
from ithaca.runtime.dialling import dial
from ithaca.runtime.machine import machine_name
from ithaca.testing import Cluster
from ithaca.wire.build import build
from ithaca.wire.frame import Frame, encode

HELLO = Hello(VERSION_MIN, VERSION_MAX, "client", features=FEATURES, engine=NAME)
PLACE = range(48, 60)
"""Of a batch's head: its place is not its producer's to say, and is written by whoever stores it."""
STALE, FUTURE = 0, 1 << 40
BATCH = b"".join(map(bytes, build([b"mine"], timestamp_us=1).buffers()))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def payloads() -> Iterator[bytes]:
    """What is no batch of anybody; nothing at all would be junk, which anybody may write."""
    yield bytes(8)
    yield bytes(len(BATCH))
    yield BATCH[:-8]
    yield BATCH + bytes(8)
    for at in range(0, len(BATCH), 7):
        if at not in PLACE:
            yield flipped(BATCH, at)


def framed(message: object, payload: bytes = b"") -> bytes:
    return b"".join(map(bytes, encode_message(message, correlation=2, payload=[payload] if payload else [])))  # type: ignore[arg-type]


def nonsense() -> Iterator[bytes]:
    """What is well said and makes no sense, then what is not even said well, of every type that this engine has."""
    for epoch in (STALE, FUTURE):
        for message in (
            WriteRow(epoch, 0, 1),
            WriteRow(epoch, ROW_MAX, 1),
            Read(epoch, ROW_MAX),
            LocateRows(epoch, "a machine", 0, ROW_MAX, 1),
            ReadRows(epoch, 0, ROW_MAX, 1, STRETCH_BYTES_MAX),
            Install(epoch, uuid4()),
            TakeTokens(epoch, (Want(1, 1, -1),)),
            TakeRow(epoch, ROW_MAX),
            Fence(epoch, 1 << 40, 1 << 40),
            GetTail(epoch),
        ):
            yield framed(message, BATCH if isinstance(message, WriteRow) else b"")
    for payload in payloads():
        yield framed(WriteRow(1, 1, 1), payload)
    yield framed(LocateRows(1, "a machine", ROW_MAX, 0, UNITS_MAX))
    yield framed(LocateRows(1, machine_name(), 0, ROW_MAX, 1))
    yield framed(ReadRows(1, ROW_MAX, 0, UNITS_MAX, 1))
    yield framed(ReadRows(1, 0, ROW_MAX, 1, STRETCH_BYTES_MAX))
    yield framed(ReadRows(1, 0, ROW_MAX, UNITS_MAX + 1, 0))
    yield framed(Seal(STALE, uuid4()))
    yield framed(TrimRows(STALE, 0, 1 << 30))
    yield framed(Decide(TrimLog(STALE, 1 << 50)))
    for number in known_types():
        for header in (b"", b"\xc0", b"\x90", b"\x91\xff", b"\x93\x01\x02", b"\xdd\xff\xff\xff\xff", b"\xff" * 64):
            yield b"".join(map(bytes, encode(Frame(number, 0, 2, header, b""))))


async def say(address: Address, data: bytes) -> None:
    """Say it after a proper hello, and hear how it ends; then the server must still tell how it is."""
    async with raw(address) as (reader, writer):
        writer.write(b"".join(map(bytes, encode_message(HELLO, correlation=0))) + data)
        writer.write(b"".join(map(bytes, encode_message(GetStatus(), correlation=4))))
        writer.write_eof()
        await asyncio.wait_for(reader.read(1 << 20), 30)


async def is_well(address: Address) -> bool:
    connection = await dial(address, HELLO, OnlyAnswers())
    try:
        return isinstance((await connection.request(GetStatus())).message, StatusIs)
    finally:
        connection.close()


async def bother(addresses: list[Address]) -> None:
    said = list(nonsense())
    for address in addresses:
        for start in range(0, len(said), 16):
            await asyncio.gather(*(say(address, each) for each in said[start : start + 16]))
        assert await is_well(address)


async def refusals(address: Address) -> list[str]:
    """What a unit says to batches that are none."""
    names: list[str] = []
    for payload in payloads():
        connection = await dial(address, HELLO, OnlyAnswers())
        try:
            answer = (await connection.request(WriteRow(1, 1, 1), [payload] if payload else [])).message
            names.append(type(error_of(answer) if isinstance(answer, Failure) else answer).__name__)
        except ithaca.IthacaError as error:
            names.append(type(error).__name__)
        finally:
            connection.close()
    return names


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(engine="corfu", shards=1) as cluster:
        yield cluster


def test_nonsense_is_refused_and_harms_nobody(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        log.append(b"before")
        asyncio.run(bother(cluster.file.addresses()))
        log.append(b"after")
        assert [record.value for record in log.read_range("earliest")] == [b"before", b"after"]
        assert log.status().healthy
        assert cluster.status().problems() == []


def test_a_batch_that_is_none_is_refused_by_a_typed_error(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        log.append(b"before")
        unit = parse_address(next(each.address for each in log.admin.units() if each.set is not None))
        assert "RowWritten" not in asyncio.run(refusals(unit))
        assert [record.value for record in log.read_range("earliest")] == [b"before"]
