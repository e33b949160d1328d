"""What servers log: one JSON object per line, for programs; `render` makes a line readable.

```
{"time":"2026-01-31T12:00:00.000123Z","level":"warning","role":"replica","name":"0/1","logger":"ithaca.listener",
 "event":"...","fields":{"lane":"0-1-3"},"trace":"Traceback ..."}
```

`fields` and `trace` are there when there are any. Whoever logs names what it is about by
`extra=fields(lane=lane)`; values that JSON does not know are logged as text.
"""

import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from ithaca.model.decoding import UNDECODABLE
from ithaca.model.limits import LOG_EVENT_CHARACTERS_MAX

_LEVEL_WIDTH = len("critical")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


class Line(msgspec.Struct, omit_defaults=True):
    """One line of a server's log."""

    time: str
    level: str
    role: str
    name: str
    logger: str
    event: str
    fields: dict[str, Any] = {}
    trace: str = ""


def fields(**values: Any) -> dict[str, dict[str, Any]]:
    """What a line is about, to be passed as `extra`.

    >>> fields(cut=7)
    {'fields': {'cut': 7}}
    """
    return {"fields": values}


def setup_logging(role: str, name: str, stream: TextIO | None = None, level: int = logging.INFO) -> logging.Handler:
    """Log everything of this process to `stream` (standard error without one), as this server.

    Called again, it replaces what the last call set up. The handler is returned for those who take it back.
    """
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each.formatter, JsonLines)]:
        root.removeHandler(handler)
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines(role, name))
    root.addHandler(handler)
    root.setLevel(level)
    return handler


class JsonLines(logging.Formatter):
    """Log records as lines of JSON; a line is always one line, and always JSON."""

    def __init__(self, role: str, name: str) -> None:
        super().__init__()
        self._role = role
        self._name = name

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        extra = getattr(record, "fields", None)
        line = Line(
            time,
            record.levelname.lower(),
            self._role,
            self._name,
            record.name,
            _shortened(_plain(record.getMessage())),
            {str(key): _jsonable(value) for key, value in extra.items()} if isinstance(extra, Mapping) else {},
            _plain(self._trace(record)),
        )
        return msgspec.json.encode(line).decode()

    def _trace(self, record: logging.LogRecord) -> str:
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        return f"{trace}\n{self.formatStack(record.stack_info)}" if record.stack_info else trace


def logged_s(line: str) -> float:
    """When a line of a log was written, in seconds since 1970.

    >>> logged_s('{"time":"1970-01-01T00:00:02.500000Z","level":"info","role":"","name":"","logger":"","event":""}')
    2.5
    """
    return datetime.fromisoformat(msgspec.json.decode(line, type=Line).time).timestamp()


def render(line: str) -> str:
    """A line of a log for people; one that is no such line is passed on as it is.

    >>> render('{"time":"2026-01-31T12:00:00.000123Z","level":"info","role":"replica","name":"0/1",'
    ...        '"logger":"ithaca.engines.scalog.replica","event":"joined","fields":{"lane":"0-1-3"}}')
    '2026-01-31 12:00:00.000123 info     replica 0/1: joined (lane 0-1-3)'
    """
    try:
        read = msgspec.json.decode(line, type=Line)
    except UNDECODABLE:
        return _visible(line.rstrip("\n"))
    time = read.time.replace("T", " ").removesuffix("Z")
    about = ", ".join(f"{key} {value}" for key, value in read.fields.items())
    event = f"{read.event} ({about})" if about else read.event
    text = _visible(f"{time} {read.level:<{_LEVEL_WIDTH}} {read.role} {read.name}: {event}")
    return text + "".join(f"\n    {_visible(each)}" for each in read.trace.splitlines())


def _jsonable(value: Any) -> Any:
    if isinstance(value, str):
        return _plain(value)
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and value.bit_length() < 64):
        return value
    return _plain(str(value))


def _plain(text: str) -> str:
    """Without the halves of surrogate pairs that undecodable file names and arguments carry."""
    return text.encode("utf-8", "backslashreplace").decode()


def _shortened(text: str) -> str:
    return text if len(text) <= LOG_EVENT_CHARACTERS_MAX else text[:LOG_EVENT_CHARACTERS_MAX] + "..."


def _visible(text: str) -> str:
    """With control characters written out: what peers have said must not steer a terminal."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
