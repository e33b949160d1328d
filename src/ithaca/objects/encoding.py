"""Values as bytes: msgpack without pickle, so that no byte in the log can make a reader run anything.

What goes in must come out as it was: a tuple that would come back as a list is refused where it enters, and the way
out is an annotation, by which it is decoded.
"""

import copy
from dataclasses import fields, is_dataclass
from typing import Any, Final

import msgspec

from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import NotEncodable

_encoder = msgspec.msgpack.Encoder()
_IMMUTABLE: Final = frozenset({int, str, bytes, bool, float, type(None)})


def encoded(value: Any, what: str) -> bytes:
    """The bytes of a value; a dictionary keeps its order, on which whoever goes through it depends."""
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError) as error:
        raise NotEncodable(
            f"{what} cannot be encoded: {error}. Numbers of 64 bits, text, bytes, lists, dictionaries, sets, "
            "dataclasses, msgspec structs, dates, decimals and UUIDs can"
        ) from error


def encoded_as(decoder: "msgspec.msgpack.Decoder[Any]", value: Any, what: str, data: bytes | None = None) -> bytes:
    """The same, once it is known that the decoder gives an equal value back."""
    if data is None:
        data = encoded(value, what)
    try:
        back = decoder.decode(data)
    except UNDECODABLE as error:
        raise NotEncodable(f"{what} is not what is declared: {error}") from error
    if not same(value, back):
        raise NotEncodable(
            f"{what} would come back as {_short(back)} instead of {_short(value)}: annotate its type, "
            "by which it is decoded"
        )
    return data


def ordered(value: Any) -> Any:
    """The value with lists for its sets, whose order depends on the process: so equal states have equal bytes."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is dict:
        return {key: ordered(each) for key, each in value.items()}
    if kind is list:
        return [ordered(each) for each in value]
    if kind is set or kind is frozenset:
        return sorted(map(ordered, value), key=_encoder.encode)
    if kind is tuple:
        return tuple([ordered(each) for each in value])
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(
            value, **{name: ordered(getattr(value, name)) for name in value.__struct_fields__}
        )
    if is_dataclass(value):
        return {field.name: ordered(getattr(value, field.name)) for field in fields(value)}
    return value


def same(value: Any, back: Any) -> bool:
    """Whether two values are of one type and equal, at all depths; a number that is no number equals itself."""
    if value is back:
        return True
    if isinstance(value, list | tuple) and isinstance(back, list | tuple):
        return (
            isinstance(value, list) == isinstance(back, list)
            and len(value) == len(back)
            and all(map(same, value, back))
        )
    if isinstance(value, dict) and isinstance(back, dict):
        return len(value) == len(back) and all(key in back and same(each, back[key]) for key, each in value.items())
    if isinstance(value, float) and isinstance(back, float):
        return value == back or (value != value and back != back)
    return bool(value == back) and isinstance(value, bool) == isinstance(back, bool)


def detached(value: Any) -> Any:
    """The value, safe to be kept and changed by whoever asked: what can change is copied out of the state."""
    return value if type(value) in _IMMUTABLE else copy.deepcopy(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
