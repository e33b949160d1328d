r"""Output templates in the manner of kcat: `%p %k %v` and escapes, compiled once.

```
%p position   %k key (empty when there is none)   %v value   %s size of the value in bytes
%t time, ISO 8601   %T time, µs since 1970   %S shard   %% a percent sign
\n \t \r \0 \\ and \xHH are single bytes
```
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ithaca.model.records import Record

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(?P<field>.?)|\\(?:x(?P<hex>[0-9a-fA-F]{2})|(?P<escape>.?))|(?P<literal>[^%\\]+)", re.DOTALL)

Render = Callable[["Record"], bytes]


@lru_cache(maxsize=64)  # the records of a batch share their time
def iso_time(timestamp_us: int) -> str:
    """Microseconds since 1970 as ISO 8601, in UTC.

    >>> iso_time(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    try:
        moment = _EPOCH + timedelta(microseconds=timestamp_us)
    except OverflowError:  # a producer's clock can say anything; a reader must not stop for it
        return f"{timestamp_us}us"
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


_FIELDS: dict[str, Render] = {
    "p": lambda record: b"%d" % record.position,
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value,
    "s": lambda record: b"%d" % len(record.value),
    "t": lambda record: iso_time(record.timestamp_us).encode(),
    "T": lambda record: b"%d" % record.timestamp_us,
    "S": lambda record: b"%d" % record.shard,
}


def compile_template(template: str) -> Render:
    r"""A function that renders a record; a letter it does not know is wrong usage.

    >>> from ithaca.model.records import Record
    >>> compile_template(r"%p:%v\n")(Record(position=7, value=b"x", key=None, timestamp_us=0, shard=0))
    b'7:x\n'
    """
    parts: list[bytes | Render] = []
    for match in _TOKEN.finditer(template):
        parts.append(_part(match))
    return lambda record: b"".join([part if isinstance(part, bytes) else part(record) for part in parts])


def _part(match: re.Match[str]) -> bytes | Render:
    field, escape = match["field"], match["escape"]
    if match["literal"] is not None:
        return match["literal"].encode("utf-8", "surrogateescape")
    if match["hex"] is not None:
        return bytes.fromhex(match["hex"])
    if field == "%":
        return b"%"
    if field in _FIELDS:
        return _FIELDS[field]
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    raise typer.BadParameter(
        f"the format has {match[0]!r}, which is not known; fields: %{' %'.join(_FIELDS)} %%; "
        r"escapes: \n \t \r \0 \\ \xHH",
        param_hint="'--format'",
    )
