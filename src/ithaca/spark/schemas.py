"""Schemas that are kept with the log: a schema is a record of the log itself, so it is as durable, and as ordered.

The record's key is `KEY_PREFIX` and the schema's name. Its value is JSON:

```
{"name": "orders", "payload": "json", "schema": {...}}      schema: as Spark's StructType.json() writes it
```

The last one of a name holds, for records before it as well: a schema may grow by fields, but a field never goes nor
changes its type, so that what was written under an older one can be read. Whoever trims the log declares it again.
"""

import json
from collections import deque
from typing import Final, Literal, NamedTuple

from pyspark.sql.types import StructType

from ithaca.model.errors import InvalidInput
from ithaca.model.interface import Log
from ithaca.model.records import KeyFilter, Record

Payload = Literal["json", "arrow"]

KEY_PREFIX: Final = b"\x00ithaca/schema/"
"""Records with such keys say a schema; `from_json` and `from_arrow` leave them out."""


class LogSchema(NamedTuple):
    """A schema of the log: what payloads are, which fields they have, and where that is said."""

    name: str
    payload: Payload
    schema: StructType
    position: int


def declare_schema(log: Log, name: str, schema: StructType | str, *, payload: Payload = "json") -> LogSchema:
    """Say what the payloads of this name are; returns what holds. Saying the same again appends nothing.

    `InvalidInput` when a field that was declared before is missing or has another type.
    """
    if payload not in ("json", "arrow"):
        raise InvalidInput(f"payload is {payload!r}: use json or arrow")
    fields = struct_of(schema)
    before = find_schema(log, name)
    if before is not None:
        if (before.payload, before.schema) == (payload, fields):
            return before
        _refuse_loss(before, fields, payload)
    text = {"name": name, "payload": payload, "schema": fields.jsonValue()}
    receipt = log.append(json.dumps(text).encode(), key=_key(name))
    return LogSchema(name, payload, fields, receipt.position)


def find_schema(log: Log, name: str, *, position: int | None = None) -> LogSchema | None:
    """The schema of this name that was declared last; None when there is none.

    The log is searched for it, by its replicas. With the position that `declare_schema` gave it is read there.
    """
    if position is not None:
        return _parse(log.read(position))
    with log.read_range(log.first(), where=KeyFilter.equals(_key(name))) as records:
        last = deque(records, maxlen=1)
    return _parse(last[0]) if last else None


def struct_of(schema: StructType | str) -> StructType:
    """A schema that may be written as DDL, such as `id long, name string`."""
    found = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(found, StructType):
        raise InvalidInput(f"{schema} is no list of columns: write it as id long, name string")
    return found


def _key(name: str) -> bytes:
    if not name:
        raise InvalidInput("a schema needs a name")
    return KEY_PREFIX + name.encode()


def _parse(record: Record) -> LogSchema:
    try:
        text = json.loads(record.value)
        payload: Payload = "arrow" if text["payload"] == "arrow" else "json"
        return LogSchema(text["name"], payload, StructType.fromJson(text["schema"]), record.position)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"the record at position {record.position} says no schema: {error}") from error


def _refuse_loss(before: LogSchema, fields: StructType, payload: Payload) -> None:
    if before.payload != payload:
        raise InvalidInput(
            f"schema {before.name} is of {before.payload} payloads, as position {before.position} says, and stays so"
        )
    now = {field.name: field.dataType for field in fields}
    for field in before.schema:
        if now.get(field.name) != field.dataType:
            raise InvalidInput(
                f"schema {before.name} has {field.name} {field.dataType.simpleString()}, as position "
                f"{before.position} says: keep it as it is, or declare another schema"
            )
