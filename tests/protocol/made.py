"""An example of every message of every engine, made of what its type says: the least of each field, or one of each."""

from typing import Any
from uuid import UUID

import msgspec
from msgspec import inspect
from tests.shipped import ENGINES

from ithaca.engines import registry
from ithaca.model.errors import InvalidInput
from ithaca.protocol.codec import known_types


def made(kind: type[msgspec.Struct], *, is_full: bool) -> msgspec.Struct:
    """A message of this type; a full one has a value wherever it may, and one element in whatever holds several."""
    value = _value(inspect.type_info(kind), is_full)
    assert isinstance(value, kind)
    return value


def _examples(kind: type[msgspec.Struct]) -> list[msgspec.Struct]:
    least = made(kind, is_full=False)
    try:
        return [least, made(kind, is_full=True)]
    except InvalidInput:  # what its fields say does not go together
        return [least]


def _value(kind: inspect.Type, is_full: bool) -> Any:
    match kind:
        case inspect.StructType():
            wanted = [field for field in kind.fields if is_full or field.required]
            return kind.cls(**{field.name: _value(field.type, is_full) for field in wanted})
        case inspect.NamedTupleType():
            return kind.cls(*(_value(field.type, is_full) for field in kind.fields))
        case inspect.DataclassType():
            return kind.cls(**{field.name: _value(field.type, is_full) for field in kind.fields})
        case inspect.UnionType():
            some = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
            return _value(some[0], is_full) if is_full or len(some) == len(kind.types) else None
        case inspect.TupleType():
            return tuple(_value(each, is_full) for each in kind.item_types)
        case inspect.VarTupleType() | inspect.ListType():
            count = max(kind.min_length or 0, int(is_full))
            items = [_value(kind.item_type, is_full) for _ in range(count)]
            return items if isinstance(kind, inspect.ListType) else tuple(items)
        case inspect.DictType():
            return {_value(kind.key_type, is_full): _value(kind.value_type, is_full)} if is_full else {}
        case _:
            return _plain(kind)


def _plain(kind: inspect.Type) -> Any:
    match kind:
        case inspect.IntType():
            return max(1, kind.ge or 0, (kind.gt or 0) + 1) if kind.le is None or kind.le else 0
        case inspect.FloatType():
            return 1.0
        case inspect.BoolType():
            return True
        case inspect.StrType():
            return "a" * max(1, kind.min_length or 0)
        case inspect.BytesType():
            return bytes(max(1, kind.min_length or 0))
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.EnumType():
            return next(iter(kind.cls))
        case inspect.UUIDType():
            return UUID(int=7)
        case _:
            raise TypeError(f"no example of {kind}")


for _engine in ENGINES:
    registry.engine(_engine)

MADE: tuple[msgspec.Struct, ...] = tuple(
    message
    for _, kind in sorted(known_types().items())
    if kind.__module__.startswith("ithaca.")
    for message in _examples(kind)
)
"""Of every message of every engine that is shipped one or two."""
