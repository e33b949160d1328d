"""Settings of a log: argument, then `ITHACA_*` in the environment, then the TOML file, then the default.

```toml
[log]
durability = "fsync"            # or "os"
compression = "none"            # or "lz4", "zstd"
retention_age_s = 604800        # keep this long; left out: for ever
retention_bytes = 10737418240   # keep this much; left out: everything
segment_bytes = 268435456       # roll segments at this size
```

The file is named by the argument or by `ITHACA_CONFIG`; `ITHACA_DURABILITY` and so on name the settings.
An empty variable, like an argument of None, is one that was not given.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, get_args

from ithaca.model.errors import ConfigError, InvalidInput, UnknownCompression
from ithaca.model.limits import (
    GIB,
    RETENTION_AGE_S_MAX,
    RETENTION_AGE_S_MIN,
    RETENTION_BYTES_MAX,
    SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN,
)
from ithaca.model.records import Compression, Durability

TABLE: Final = "log"
PREFIX: Final = "ITHACA_"


@dataclass(frozen=True, slots=True)
class Settings:
    """What an embedded log is opened with, every value checked."""

    durability: Durability = "fsync"
    compression: Compression = "none"
    retention_age_s: float | None = None
    retention_bytes: int | None = None
    segment_bytes: int = SEGMENT_BYTES_MAX


@dataclass(frozen=True, slots=True)
class _Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def parse(self, text: str) -> object:
        return text

    def problem(self, value: object) -> str | None:
        """What is wrong with the value, or None."""
        if value in self.words:
            return None
        return f"is {value!r}{_did_you_mean(str(value), self.words)}: use one of {', '.join(self.words)}"


@dataclass(frozen=True, slots=True)
class _Number:
    """A number of `[low, high]`, whole or not."""

    low: float
    high: float
    whole: bool = True

    def parse(self, text: str) -> object:
        try:
            return int(text) if self.whole else float(text)
        except ValueError:
            return text

    def problem(self, value: object) -> str | None:
        kinds = int if self.whole else int | float
        if isinstance(value, kinds) and not isinstance(value, bool) and self.low <= value <= self.high:
            return None
        return f"is {value!r}: use a {'whole ' * self.whole}number from {self.low} to {self.high}"


_RULES: Final[Mapping[str, _Choice | _Number]] = {
    "durability": _Choice(get_args(Durability)),
    "compression": _Choice(get_args(Compression)),
    "retention_age_s": _Number(RETENTION_AGE_S_MIN, RETENTION_AGE_S_MAX, whole=False),
    "retention_bytes": _Number(1, RETENTION_BYTES_MAX),
    "segment_bytes": _Number(SEGMENT_BYTES_MIN, GIB),
}
assert list(_RULES) == [field.name for field in fields(Settings)]


def load_settings(
    *,
    file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] = os.environ,
    durability: Durability | None = None,
    compression: Compression | None = None,
    retention_age_s: float | None = None,
    retention_bytes: int | None = None,
    segment_bytes: int | None = None,
) -> Settings:
    """The settings in force; `ConfigError` names the file and line, or the variable, that is wrong.

    >>> load_settings(environ={"ITHACA_DURABILITY": "os"}, compression="lz4").durability
    'os'
    """
    arguments = {
        "durability": durability,
        "compression": compression,
        "retention_age_s": retention_age_s,
        "retention_bytes": retention_bytes,
        "segment_bytes": segment_bytes,
    }
    path = file if file is not None else environ.get(PREFIX + "CONFIG") or None
    values = {} if path is None else _from_file(os.fspath(path))
    values |= _from_environment(environ)
    values |= _from_arguments(arguments)
    return Settings(**values)


def _from_arguments(arguments: Mapping[str, object]) -> dict[str, Any]:
    given = {name: value for name, value in arguments.items() if value is not None}
    for name, value in given.items():
        problem = _RULES[name].problem(value)
        if problem is not None:
            kind = UnknownCompression if name == "compression" else InvalidInput
            raise kind(f"{name} {problem}")
    return given


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for name, rule in _RULES.items():
        variable = PREFIX + name.upper()
        text = environ.get(variable, "").strip()
        if not text:
            continue
        values[name] = rule.parse(text)
        problem = rule.problem(values[name])
        if problem is not None:
            raise ConfigError(f"{name} {problem}", file=variable)
    return values


def _from_file(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        document = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=path) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8: {error.reason} at byte {error.start}", file=path) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is not TOML: {error}", file=path, line=_line_of_syntax_error(error, text)) from error
    for name in document:
        if name != TABLE:
            raise ConfigError(
                f"{name} is not known{_did_you_mean(name, [TABLE])}: settings stand in the table [{TABLE}]",
                file=path,
                line=_line_of(text, name),
            )
    table = document.get(TABLE, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{TABLE} is {table!r}: make it a table, [{TABLE}]", file=path, line=_line_of(text, TABLE))
    for name, value in table.items():
        problem = _problem(name, value)
        if problem is not None:
            raise ConfigError(f"{name} {problem}", file=path, line=_line_of(text, TABLE, name))
    return table


def _problem(name: str, value: object) -> str | None:
    rule = _RULES.get(name)
    if rule is None:
        return f"is not known{_did_you_mean(name, _RULES)}: use one of {', '.join(_RULES)}"
    return rule.problem(value)


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _line_of_syntax_error(error: tomllib.TOMLDecodeError, text: str) -> int:
    """The line that the error's message names; at the end of the document it names none."""
    found = re.search(r"at line (\d+)", str(error))
    return int(found[1]) if found else text.rstrip().count("\n") + 1


def _line_of(text: str, *path: str) -> int:
    """The line that sets the key at `path`, or else the closest table around it; 0 when there is none.

    TOML is read by its parser, which tells no lines; this only looks for the key of something found.
    """
    best, best_depth = 0, 0
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := re.match(r"\s*\[+([^\[\]]+)\]", line):
            table = here = _split(header[1])
        elif setting := re.match(r"\s*([\w.\"'\s-]+?)\s*=", line):
            here = (*table, *_split(setting[1]))
        else:
            continue
        depth = min(len(here), len(path))
        if depth > best_depth and here[:depth] == path[:depth]:
            best, best_depth = number, depth
    return best


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip(" \t\"'") for part in dotted.split("."))
