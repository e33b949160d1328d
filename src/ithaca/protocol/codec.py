"""Messages to frames and back. What a peer sent is checked here, once: types, bounds, lengths.

Flags of a frame: bit 0 says that the message is at the start of the payload, zero-padded to 8 and before any
batches, because it is too large for the header, which is then its length in bytes, as msgpack; bit 1 says that
the frame answers a request. Other bits are 0.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ithaca.model.consumers import DeleteConsumer, ResetConsumer
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import ProtocolError
from ithaca.model.limits import FRAME_HEADER_BYTES_MAX
from ithaca.model.records import Buffer
from ithaca.protocol.consumers import ChangeConsumers
from ithaca.protocol.greeting import GREETINGS, fields_to_say
from ithaca.protocol.members import AddOrderer, OrderersAre, RaftMessage, RemoveOrderer
from ithaca.protocol.messages import TYPES
from ithaca.protocol.users import ChangeUsers, GetUsers
from ithaca.wire.frame import Frame, encode

Message: TypeAlias = msgspec.Struct
"""One that was registered."""

_IN_PAYLOAD = 0b01
_ANSWER = 0b10
_KNOWN = _IN_PAYLOAD | _ANSWER

_encode = msgspec.msgpack.Encoder().encode
_types: dict[int, type[msgspec.Struct]] = {}
_number_of: dict[type[msgspec.Struct], int] = {}
_decoders: dict[int, msgspec.msgpack.Decoder[msgspec.Struct]] = {}
_for_servers: set[type[msgspec.Struct]] = set()
_administrative: dict[type[msgspec.Struct], Callable[[Any], bool]] = {}
_length_decoder = msgspec.msgpack.Decoder(int)


def register(
    types: Mapping[int, type[msgspec.Struct]],
    *,
    for_servers: Collection[type[msgspec.Struct]] = (),
    administrative: Mapping[type[msgspec.Struct], Callable[[Any], bool]] = MappingProxyType({}),
) -> None:
    """Know these messages by the numbers of their frames. Of them, those `for_servers` are said by servers alone; those
    that are `administrative` change the cluster, or take from the log, if what goes with them says so of a message."""
    _for_servers.update(for_servers)
    _administrative.update(administrative)
    for number, kind in types.items():
        if _types.setdefault(number, kind) is not kind:
            raise ValueError(f"frames of type {number} are {_types[number].__name__}, not {kind.__name__}")
        _number_of[kind] = number
        _decoders[number] = msgspec.msgpack.Decoder(kind)


def known_types() -> dict[int, type[msgspec.Struct]]:
    """The messages that were registered, by the numbers of their frames."""
    return dict(_types)


def always(message: msgspec.Struct) -> bool:
    """Whatever it says."""
    return True


def is_administrative(message: msgspec.Struct) -> bool:
    """Whether it asks for a change of the cluster, or takes from the log."""
    judge = _administrative.get(type(message))
    return judge is not None and judge(message)


def is_for_servers(message: msgspec.Struct) -> bool:
    """Whether only servers say this to whom they dial."""
    return type(message) in _for_servers


def _moves_consumers(message: ChangeConsumers) -> bool:
    """Whether a consumer is put elsewhere, or forgotten, which is not its own doing."""
    return any(isinstance(command, ResetConsumer | DeleteConsumer) for command in message.commands)


register(
    TYPES,
    for_servers=(OrderersAre, RaftMessage, GetUsers),
    administrative={
        AddOrderer: always,
        RemoveOrderer: always,
        ChangeUsers: always,
        ChangeConsumers: _moves_consumers,
    },
)


class Received(NamedTuple):
    """A message as it came, with what came beside it."""

    message: Message
    correlation: int
    is_answer: bool
    payload: Buffer


def encode_message(
    message: Message, *, correlation: int = 0, answer: bool = False, payload: Sequence[Buffer] = ()
) -> list[Buffer]:
    """The frame that carries this message, as buffers to be written one after the other."""
    header = _encode(fields_to_say(message) if isinstance(message, GREETINGS) else message)
    number = _number_of[type(message)]
    flags = _ANSWER if answer else 0
    if len(header) > FRAME_HEADER_BYTES_MAX:
        body = header + bytes(-len(header) % 8)
        return encode(Frame(number, flags | _IN_PAYLOAD, correlation, _encode(len(header))), [body, *payload])
    return encode(Frame(number, flags, correlation, header), payload)


def decode_message(frame: Frame) -> Received:
    """The message of a frame; `ProtocolError` says what is wrong with it."""
    decoder = _decoders.get(frame.type)
    if decoder is None:
        raise ProtocolError(f"a frame of type {frame.type} is not known here")
    if frame.flags & ~_KNOWN:
        raise ProtocolError(f"a frame has the flags {frame.flags:#x}, of which only {_KNOWN:#x} are known here")
    header: Buffer = frame.header
    payload = frame.payload
    try:
        if frame.flags & _IN_PAYLOAD:
            header, payload = _parted(payload, _length_decoder.decode(header))
        message: Message = decoder.decode(header)
    except UNDECODABLE as error:
        raise ProtocolError(f"a {_types[frame.type].__name__} cannot be decoded: {error}") from error
    return Received(message, frame.correlation, bool(frame.flags & _ANSWER), payload)


def number_of(kind: type[msgspec.Struct]) -> int:
    """Of the frames of this message."""
    return _number_of[kind]


def decode_plain(number: int, frames: Sequence[Frame]) -> list[Message]:
    """The messages of frames that are all of this type and have no flags; none at all if one of them is malformed:
    `decode_message` says of each what is wrong with it."""
    decode = _decoders[number].decode
    try:
        return [decode(frame.header) for frame in frames]
    except UNDECODABLE:
        return []


def _parted(payload: Buffer, length: int) -> tuple[Buffer, Buffer]:
    """The message of `length` bytes at the start of a payload, and what follows it."""
    end = length + -length % 8
    if not 0 <= length <= end <= len(payload):
        raise ProtocolError(f"a message of {length} bytes is not in a payload of {len(payload)}")
    view = memoryview(payload)
    if any(view[length:end]):
        raise ProtocolError("the padding behind a message is not zero")
    return view[:length], view[end:]
