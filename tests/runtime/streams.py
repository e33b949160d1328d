"""Bytes of connections: frames to send, and what was answered."""

import asyncio

import msgspec
from tests.runtime.echo import raw, rest

from ithaca.model.errors import (
    IthacaError,
)
from ithaca.model.view import Address
from ithaca.protocol.codec import decode_message, encode_message
from ithaca.protocol.failures import error_of
from ithaca.protocol.greeting import (
    Failure,
)
from ithaca.wire.frame import FrameDecoder


def framed(message: msgspec.Struct, payload: bytes = b"") -> bytes:
    return b"".join(map(bytes, encode_message(message, payload=[payload] if payload else ())))


def messages(stream: bytes) -> list[msgspec.Struct]:
    return [decode_message(frame).message for frame in FrameDecoder().feed(stream)]


def last_word(stream: bytes) -> IthacaError:
    """The reason that a server gave before it ended a connection."""
    failure = messages(stream)[-1]
    assert isinstance(failure, Failure)
    return error_of(failure)


# HTTP


async def get(address: Address, *parts: bytes) -> bytes:
    async with raw(address) as (reader, writer):
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.005)
        return await rest(reader)
