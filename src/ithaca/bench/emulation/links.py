"""The connections of emulated replicas to the ordering leader. They speak as real replicas do, and keep nothing.

There are thousands of them in a process, each with a small frame now and then; so a link holds no receive
buffer, which a connection of `runtime.connection` has, and no more than the rest of a frame between two reads.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import cast

from ithaca.model.errors import IthacaError, ProtocolError, Unavailable
from ithaca.model.limits import CONNECT_TIMEOUT_S, FRAME_BYTES_MAX
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, decode_message, encode_message
from ithaca.protocol.failures import error_of
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, VERSION_MIN, Failure, Hello, Redirect, Welcome
from ithaca.wire.frame import PREFIX_BYTES, Frame

_PREFIX = struct.Struct("<IBBHII")

Take = Callable[[Message], None]


def split_frames(data: bytes) -> tuple[list[Frame], bytes]:
    """The whole frames at the start of `data`, and the rest."""
    frames: list[Frame] = []
    start = 0
    while len(data) - start >= PREFIX_BYTES:
        length, kind, flags, header_bytes, correlation, _ = _PREFIX.unpack_from(data, start)
        if not PREFIX_BYTES <= length <= FRAME_BYTES_MAX:
            raise ProtocolError(f"a frame is {length} bytes long")
        if len(data) - start < length:
            break
        middle = start + PREFIX_BYTES + header_bytes
        header = data[start + PREFIX_BYTES : middle]
        payload = data[middle + (-header_bytes & 7) : start + length]
        frames.append(Frame(kind, flags, correlation, header, payload))
        start += length
    return frames, data[start:]


class Link(asyncio.Protocol):
    """One connection. What is no answer goes to `take`; what goes wrong, to `failed`, once."""

    def __init__(self, take: Take, failed: Callable[[IthacaError], None]) -> None:
        self._take = take
        self._failed = failed
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._correlation = 0
        self._has_ended = False
        self.sent_bytes = 0
        self.received_bytes = 0

    def send(self, message: Message, correlation: int = 0) -> None:
        data = b"".join(encode_message(message, correlation=correlation))
        self.sent_bytes += len(data)
        assert self._transport is not None
        self._transport.write(data)

    async def ask(self, message: Message) -> Message:
        """The answer; what the other side refuses is raised."""
        self._correlation += 2
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[self._correlation] = future
        self.send(message, self._correlation)
        answer = await future
        if isinstance(answer, Redirect):
            raise Unavailable(f"another orderer leads now, at {answer.leader}")
        return answer

    def close(self) -> None:
        """End it; nobody is told of that."""
        self._has_ended = True
        if self._transport is not None:
            self._transport.abort()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        try:
            frames, self._rest = split_frames(self._rest + data if self._rest else data)
            for frame in frames:
                self._receive(frame)
        except IthacaError as error:
            self._end(error)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(Unavailable(f"the leader has ended the connection of an emulated replica: {error or 'closed'}"))

    def _receive(self, frame: Frame) -> None:
        received = decode_message(frame)
        message = received.message
        if isinstance(message, Welcome):
            self._answer(0, message)
        elif isinstance(message, Failure):
            if not self._answer(received.correlation, error_of(message)):
                self._end(error_of(message))
        elif received.is_answer:
            self._answer(received.correlation, message)
        else:
            self._take(message)

    def _answer(self, correlation: int, answer: Message | IthacaError) -> bool:
        future = self._answers.pop(correlation, None)
        if future is None or future.done():
            return False
        if isinstance(answer, IthacaError):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        return True

    def _end(self, error: IthacaError) -> None:
        if self._has_ended:
            return
        self.close()
        for correlation in list(self._answers):
            self._answer(correlation, error)
        self._failed(error)

    async def greet(self) -> None:
        """Say hello, and wait for the welcome."""
        welcomed = self._answers[0] = asyncio.get_running_loop().create_future()
        self.send(Hello(VERSION_MIN, VERSION_MAX, "replica", "emulated", FEATURES))
        await welcomed


async def dial_link(address: Address, take: Take, failed: Callable[[IthacaError], None]) -> Link:
    """Connect and shake hands."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, link = await loop.create_connection(lambda: Link(take, failed), address.host, address.port)
            await link.greet()
    except TimeoutError:
        raise Unavailable(f"{address} did not answer within {CONNECT_TIMEOUT_S} s") from None
    return link
