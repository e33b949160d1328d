"""Settings of a log: argument, then `ITHACA_*` in the environment, then the TOML file, then the default.

```toml
[log]
durability = "fsync"            # or "os"
compression = "none"            # or "lz4", "zstd"
retention_age_s = "7d"          # keep this long; left out: for ever
retention_bytes = "10GB"        # keep this much; left out: everything
segment_bytes = "256M"          # roll segments at this size
consumer_idle_s = "90d"         # named consumers that nobody used for so long go; left out: none does
```

A time or a size is a number of what its name says, or text with a unit.

The file is named by the argument or by `ITHACA_CONFIG`; `ITHACA_DURABILITY` and so on name the settings.
An empty variable, like an argument of None, is one that was not given.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, get_args

from ithaca.model.config.rules import Amount, Choice, Number, meant, shown
from ithaca.model.config.toml_lines import did_you_mean, line_of, read_toml
from ithaca.model.errors import ConfigError, InvalidInput, UnknownCompression
from ithaca.model.limits import (
    GIB,
    IDLE_S_MAX,
    IDLE_S_MIN,
    RETENTION_AGE_S_MAX,
    RETENTION_AGE_S_MIN,
    RETENTION_BYTES_MAX,
    SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN,
)
from ithaca.model.paths import AnyPath, local_path
from ithaca.model.records import Compression, Durability
from ithaca.model.units import Duration, Size

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
    consumer_idle_s: float | None = None


_RULES: Final[Mapping[str, Choice | Amount]] = {
    "durability": Choice(get_args(Durability)),
    "compression": Choice(get_args(Compression)),
    "retention_age_s": Amount(Number(RETENTION_AGE_S_MIN, RETENTION_AGE_S_MAX, whole=False), "s"),
    "retention_bytes": Amount(Number(1, RETENTION_BYTES_MAX), "bytes"),
    "segment_bytes": Amount(Number(SEGMENT_BYTES_MIN, GIB), "bytes"),
    "consumer_idle_s": Amount(Number(IDLE_S_MIN, IDLE_S_MAX, whole=False), "s"),
}
assert list(_RULES) == [field.name for field in fields(Settings)]


def load_settings(
    *,
    file: AnyPath | None = None,
    environ: Mapping[str, str] = os.environ,
    durability: Durability | None = None,
    compression: Compression | None = None,
    retention_age_s: Duration | None = None,
    retention_bytes: Size | None = None,
    segment_bytes: Size | None = None,
    consumer_idle_s: Duration | None = None,
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
        "consumer_idle_s": consumer_idle_s,
    }
    path = file if file is not None else environ.get(PREFIX + "CONFIG") or None
    values = {} if path is None else _from_file(local_path(path))
    values |= _from_environment(environ)
    values |= _from_arguments(arguments)
    return Settings(**{name: meant(_RULES[name], value) for name, value in values.items()})


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
    document, text = read_toml(path)
    for name in document:
        if name != TABLE:
            raise ConfigError(
                f"{name} is not known{did_you_mean(name, [TABLE])}: settings stand in the table [{TABLE}]",
                file=path,
                line=line_of(text, name),
            )
    table = document.get(TABLE, {})
    if not isinstance(table, dict):
        message = f"{TABLE} is {shown(table)}: make it a table, [{TABLE}]"
        raise ConfigError(message, file=path, line=line_of(text, TABLE))
    for name, value in table.items():
        problem = _problem(name, value)
        if problem is not None:
            raise ConfigError(f"{name} {problem}", file=path, line=line_of(text, TABLE, name))
    return table


def _problem(name: str, value: object) -> str | None:
    rule = _RULES.get(name)
    if rule is None:
        return f"is not known{did_you_mean(name, _RULES)}: use one of {', '.join(_RULES)}"
    return rule.problem(value)
