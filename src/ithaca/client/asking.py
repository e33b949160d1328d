"""Asking one server of whatever engine how it is, over a connection of its own."""

from typing import Any

import msgspec

from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import ProtocolError
from ithaca.model.limits import STATUS_TIMEOUT_S
from ithaca.model.security.tls import TLS
from ithaca.model.view import Address
from ithaca.protocol.codec import Message
from ithaca.protocol.greeting import (
    ANY_ENGINE,
    FEATURES,
    INSECURE,
    VERSION_MAX,
    VERSION_MIN,
    GetStatus,
    Hello,
    StatusIs,
    Welcome,
)
from ithaca.runtime.connection import OnlyAnswers
from ithaca.runtime.dialling import Introduction, dial


async def ask_status(address: Address, tls: TLS | None) -> dict[str, Any]:
    """What the server at the address says of itself, the `engine` that it has, and whether it is `insecure`."""
    answer, welcome = await _ask(address, GetStatus(), tls)
    if not isinstance(answer, StatusIs):
        raise ProtocolError(f"{address} answered a question about its status with {type(answer).__name__}")
    try:
        said = msgspec.json.decode(answer.json, type=dict[str, Any]) | {"engine": welcome.engine}
    except UNDECODABLE as error:
        raise ProtocolError(f"{address} says of itself what cannot be read: {error}") from error
    return said | {"insecure": True} if INSECURE in welcome.features else said


async def ask_once(address: Address, question: Message, tls: TLS | None) -> Message:
    """The answer of the server at the address, which has `STATUS_TIMEOUT_S` for it."""
    return (await _ask(address, question, tls))[0]


async def _ask(address: Address, question: Message, tls: TLS | None) -> tuple[Message, Welcome]:
    hello = Hello(VERSION_MIN, VERSION_MAX, "client", "status", FEATURES, engine=ANY_ENGINE)
    connection = await dial(address, Introduction(hello, tls), OnlyAnswers(), timeout=STATUS_TIMEOUT_S)
    assert connection.welcome is not None
    try:
        return (await connection.request(question, timeout=STATUS_TIMEOUT_S)).message, connection.welcome
    finally:
        connection.close()
