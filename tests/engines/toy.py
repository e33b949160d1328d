"""A toy engine, to copy from: messages, a server with the log in memory, a handle, and an `Engine` that names them."""

from bisect import bisect_right
from typing import Any

import msgspec

from ithaca.client.fetched import Bounds, Fetched, FetchingLog, trimmed
from ithaca.client.settings import ClientSettings
from ithaca.engines import registry
from ithaca.engines.engine import Engine
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.engine import Feature
from ithaca.model.errors import InvalidInput, ProtocolError
from ithaca.model.interface import ClusterStatus
from ithaca.model.records import Buffer, Receipt
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, register
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, Hello
from ithaca.runtime.checks import check_position
from ithaca.runtime.connection import Connection, OnlyAnswers
from ithaca.runtime.dialling import dial
from ithaca.server.answering import Answer, AnsweringServer
from ithaca.server.options import ServerOptions
from ithaca.server.position_waits import PositionWaits
from ithaca.wire.batch import Batch, parse


class ToyAppend(msgspec.Struct, frozen=True, array_like=True):
    """Append the batch in the payload."""


class ToyTrim(msgspec.Struct, frozen=True, array_like=True):
    before: int = 1


class ToyFetch(msgspec.Struct, frozen=True, array_like=True):
    """The batch that holds this position, or the next one, once it is there."""

    position: int
    wait_s: float = 0


class ToyLogIs(msgspec.Struct, frozen=True, array_like=True):
    """Where the log begins and ends; the batch that was appended, or is in the payload, starts at `start`."""

    first: int
    tail: int
    start: int = 0


register({200: ToyAppend, 201: ToyTrim, 202: ToyFetch, 203: ToyLogIs})


class ToyServer(AnsweringServer):
    """The log: batches, and where each starts. It is in the first orderer of the file."""

    def __init__(self, file: ClusterFile, place: ServerPlace, listen_at: Address | None) -> None:
        super().__init__(file, place, listen_at)
        self._batches: list[tuple[int, Batch]] = []
        self._first = self._tail = 1
        self._waits = PositionWaits()

    def status(self) -> dict[str, Any]:
        return {"state": "serving", "first": self._first, "tail": self._tail}

    async def answer(self, message: Message, payload: Buffer) -> Answer:
        start = 0
        match message:
            case ToyAppend():
                batch = parse(payload)
                start, self._tail = self.place(batch.count)
                self._batches.append((start, batch))
                self._waits.passed(self._tail)
            case ToyTrim(before) if before > self._tail:
                raise InvalidInput(f"cannot trim before {before}: the tail is {self._tail}")
            case ToyTrim(before):
                self._first = max(self._first, before)
            case ToyFetch(position, wait_s):
                if position >= self._tail:
                    await self._waits.wait(position, wait_s)
                if position < self._first:
                    raise trimmed(position, self._first)
                at = bisect_right(self._batches, position, key=lambda placed: placed[0] + placed[1].count)
                if at < len(self._batches):
                    start, batch = self._batches[at]
                    return Answer(ToyLogIs(self._first, self._tail, start), batch.buffers())
            case _:
                raise ProtocolError(f"a toy does not know {type(message).__name__}")
        return Answer(ToyLogIs(self._first, self._tail, start))

    def place(self, count: int) -> tuple[int, int]:
        """Where the next so many records go, and where the tail is then."""
        return self._tail, self._tail + count


class ToyLog(FetchingLog):
    """A handle: one connection."""

    def __init__(self, connection: Connection, settings: ClientSettings) -> None:
        super().__init__(f"the toy at {connection.name}", settings)
        self._connection = connection

    async def _ask(self, message: Message, *payload: Buffer, wait_s: float = 0) -> tuple[ToyLogIs, Buffer]:
        received = await self._connection.request(message, payload, timeout=self._settings.timeout_s + wait_s)
        assert isinstance(received.message, ToyLogIs)
        return received.message, received.payload

    async def send(self, batch: Batch) -> Receipt:
        found, _ = await self._ask(ToyAppend(), *batch.buffers())
        return Receipt(found.start, batch.count, 0, "os")

    async def bounds(self) -> Bounds:
        found, _ = await self._ask(ToyTrim())
        return Bounds(found.first, found.tail)

    async def fetch(self, position: int, wait_s: float) -> Fetched:
        found, payload = await self._ask(ToyFetch(position, wait_s), wait_s=wait_s)
        if not found.start:
            return Fetched([], max(position, found.tail))
        return Fetched.of_payload(payload, found.start, shard=0)

    async def trim(self, before: int) -> None:
        self.check()
        check_position(before, "before")
        await self._ask(ToyTrim(before))

    async def status(self) -> ClusterStatus:
        return ClusterStatus(True, (), await self.tail(), await self.first())

    async def disconnect(self) -> None:
        self._connection.close()


class Toy(Engine):
    name = "toy"
    features = frozenset({Feature.TRIM, Feature.DENSE})
    roles = frozenset({"orderer"})

    def make_server(self, file: ClusterFile, place: ServerPlace, directory: str, options: ServerOptions) -> ToyServer:
        return ToyServer(file, place, options.listen_at)

    async def connect(self, bootstrap: tuple[Address, ...], settings: ClientSettings) -> ToyLog:
        hello = Hello(VERSION_MIN, VERSION_MAX, "client", engine=self.name)
        return ToyLog(await dial(bootstrap[0], hello, OnlyAnswers()), settings)


registry.register("toy", Toy())
