"""Durations and sizes as people write them: numbers, or text with a unit. The only place that reads them.

A duration is a number of seconds, a `timedelta`, or text such as "500ms", "30s", "5min", "12h", "7d", "2w". A size is
a number of bytes, or text such as "64K", "1.5GB", "10GiB"; its units are powers of 1024. `InvalidInput` says what to
write instead.
"""

import math
import re
from datetime import timedelta
from typing import Final

from ithaca.model.arguments import is_integer
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import DURATION_S_MAX

Duration = float | str | timedelta
"""A number of seconds, a `timedelta`, or text: "500ms", "30s", "5min", "12h", "7d", "2w"."""
Size = int | str
"""A number of bytes, or text: "64K", "100MB", "10GiB"; all units are powers of 1024."""

_SECONDS: Final = {
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
    "w": 604_800.0,
}
_DURATION: Final = re.compile(rf"([0-9]+(?:\.[0-9]+)?)\s*({'|'.join(_SECONDS)})?", re.IGNORECASE)
_BYTES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)


def parse_duration(text: str, *, bare_s: float = 1.0) -> float:
    """Seconds from text; a number without a unit is one of `bare_s` seconds each.

    >>> parse_duration("500ms"), parse_duration("7d"), parse_duration("2.5")
    (0.5, 604800.0, 2.5)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(f"{text!r} is not a duration: write it as 500ms, 30s, 5min, 12h or 7d")
    number, unit = float(match[1]), match[2]
    if unit is None:
        return number * bare_s
    factor = _SECONDS[unit.lower()]
    return number / round(1 / factor) if factor < 1 else number * factor


def parse_size(text: str) -> int:
    """Bytes from text, at least one.

    >>> parse_size("4096"), parse_size("64K"), parse_size("1.5GB")
    (4096, 65536, 1610612736)
    """
    match = _SIZE.fullmatch(text.strip())
    size = 0
    if match is not None and (match[1].isdecimal() or match[2]):  # there is no half byte
        number = int(match[1]) if match[1].isdecimal() else float(match[1])
        size = int(number * _BYTES[match[2].upper()])
    if size <= 0:
        raise InvalidInput(f"{text!r} is not a size: write it as 4096, 64K, 100M or 10G")
    return size


def _way_out(error: InvalidInput) -> str:
    """What to write instead, without what was written."""
    return str(error).rpartition(": ")[2]


def seconds(value: object, what: str = "timeout") -> float:
    """An argument that is a duration, as seconds; never below 0.

    >>> seconds("500ms"), seconds(timedelta(minutes=1)), seconds(3)
    (0.5, 60.0, 3)
    """
    if isinstance(value, str):
        try:
            found = parse_duration(value)
        except InvalidInput as error:
            raise InvalidInput(f"{what} is {value!r}: {_way_out(error)}") from None
    elif isinstance(value, timedelta):
        found = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found = value
    else:
        raise InvalidInput(
            f'{what} is {value!r}: use a number of seconds, such as 0.5, or text with a unit, such as "500ms" or "7d"'
        )
    if math.isnan(found) or not 0 <= found <= DURATION_S_MAX:
        raise InvalidInput(f"{what} is {value!r}: use 0 seconds or more, and at most {DURATION_S_MAX}")
    return found


def optional_seconds(value: object, what: str = "timeout") -> float | None:
    """The same, where None is for ever."""
    return None if value is None else seconds(value, what)


def byte_count(value: object, what: str) -> int:
    """An argument that is a size, as bytes; at least one.

    >>> byte_count("10GB", "retention"), byte_count(512, "retention")
    (10737418240, 512)
    """
    if isinstance(value, str):
        try:
            return parse_size(value)
        except InvalidInput as error:
            raise InvalidInput(f"{what} is {value!r}: {_way_out(error)}") from None
    if not is_integer(value) or value < 1:
        raise InvalidInput(f'{what} is {value!r}: use a positive number of bytes, or text such as "64K" or "10GB"')
    return value
