"""The logs of a cluster's servers, merged by time: the newest lines, and those that come.

Lines are JSON objects with a `time` (`runtime.logs`), or start with a time; any other line, such as the middle
of a traceback, belongs to the time of the line before it.
"""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ithaca.cluster.limits import LOG_LINE_BYTES_MAX
from ithaca.cluster.log_files import DIRECTORY, OLD, log_path
from ithaca.model.config.toml_lines import did_you_mean
from ithaca.model.errors import InvalidInput

_TIME = re.compile(rb'(?:\{"time":")?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)Z')
_BLOCK_BYTES = 1 << 16
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line, and the server that printed it."""

    name: str
    time: bytes
    text: str


def log_names(directory: Path) -> list[str]:
    """Servers that have printed something, in order."""
    return sorted(path.stem for path in (directory / DIRECTORY).glob("*.log"))


def check_name(directory: Path, name: str) -> None:
    """`InvalidInput` names the logs that there are."""
    names = log_names(directory)
    if name not in names:
        known = ", ".join(names) or "none yet"
        raise InvalidInput(f"{directory} has no log of {name}{did_you_mean(name, names)}: there are {known}")


class LogReader:
    """Reads on in each log from where it was."""

    def __init__(self, directory: Path, name: str | None) -> None:
        self._directory = directory
        self._name = name
        self._ends: dict[str, int] = {}
        self._parts: dict[str, bytes] = {}

    def _names(self) -> list[str]:
        return [self._name] if self._name is not None else log_names(self._directory)

    def last(self, count: int) -> list[LogLine]:
        """The newest lines of all logs together; `news` goes on after them."""
        lines: list[LogLine] = []
        for name in self._names():
            path = log_path(self._directory, name)
            found, self._ends[name] = _last_lines(path, count)
            if len(found) < count:
                found = _last_lines(path.with_name(path.name + OLD), count - len(found))[0] + found
            lines += _dated(name, found)
        lines.sort(key=lambda line: line.time)  # stable: lines of one log stay in order
        return lines[-count:] if count else []

    def news(self) -> list[LogLine]:
        """The lines that were completed since the last call, by time."""
        lines: list[LogLine] = []
        for name in self._names():
            lines += _dated(name, self._read_on(name))
        lines.sort(key=lambda line: line.time)
        return lines

    def _read_on(self, name: str) -> list[bytes]:
        try:
            with log_path(self._directory, name).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                start = self._ends.get(name, 0)
                if size < start:  # it was put aside, and begins again
                    start = 0
                file.seek(start)
                data = file.read(size - start)
        except FileNotFoundError:
            return []
        self._ends[name] = start + len(data)
        *lines, rest = (self._parts.get(name, b"") + data).split(b"\n")
        if len(rest) > LOG_LINE_BYTES_MAX:
            lines.append(rest)
            rest = b""
        self._parts[name] = rest
        return lines

    def follow(self) -> Iterator[LogLine]:
        """New lines as they come, for ever."""
        while True:
            lines = self.news()
            yield from lines
            if not lines:
                time.sleep(_POLL_S)


def _last_lines(path: Path, count: int) -> tuple[list[bytes], int]:
    """The last complete lines of a file, and where they end."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return [], 0
    with file:
        start = os.fstat(file.fileno()).st_size
        data = b""
        while start > 0 and data.count(b"\n") <= count:
            step = min(start, _BLOCK_BYTES)
            start -= step
            file.seek(start)
            data = file.read(step) + data
    end = start + data.rfind(b"\n") + 1
    lines = data[: end - start].split(b"\n")[:-1]
    return (lines[-count:] if count else []), end


def _dated(name: str, lines: list[bytes]) -> Iterator[LogLine]:
    newest = b""
    for line in lines:
        found = _TIME.match(line)
        newest = found[1] if found else newest
        yield LogLine(name, newest, line.decode(errors="replace"))
