"""Opening the embedded log: `ithaca.open`."""

from typing import Literal

from ithaca.embedded.engine import Engine
from ithaca.embedded.log import EmbeddedLog
from ithaca.model import interface
from ithaca.model.config.log import load_settings
from ithaca.model.errors import InvalidInput
from ithaca.model.paths import AnyPath, local_path
from ithaca.model.records import Compression, Durability, Retention, check_retention
from ithaca.model.units import Duration, Size


def open(
    path: AnyPath,
    *,
    mode: Literal["a", "r"] = "a",
    durability: Durability | None = None,
    compression: Compression | None = None,
    retention: Retention | None = None,
    segment_bytes: Size | None = None,
    consumer_idle_s: Duration | None = None,
) -> interface.Log:
    """Open the log in a directory, creating it if need be; with `mode="r"`, read along with its writer.

    `path` is text or a `Path`, and may begin with `~`. `durability="os"` acknowledges what is in the page cache
    only: it survives the process, not the power. Sizes may be text, as in `segment_bytes="64MB"`. With
    `consumer_idle_s`, such as "90d", named consumers go that were neither opened nor committed for so long. What is
    left out comes from `ITHACA_*` in the environment, then from the file that `ITHACA_CONFIG` names, then from the
    defaults ("fsync", "none", everything kept).

    >>> import ithaca
    >>> with ithaca.open("./events") as log:
    ...     log.append(b"hello").position
    1
    """
    return EmbeddedLog(open_engine(path, mode, durability, compression, retention, segment_bytes, consumer_idle_s))


def open_engine(
    path: AnyPath,
    mode: Literal["a", "r"],
    durability: Durability | None,
    compression: Compression | None,
    retention: Retention | None,
    segment_bytes: Size | None,
    consumer_idle_s: Duration | None,
) -> Engine:
    """The log behind either face."""
    if mode not in ("a", "r"):
        raise InvalidInput(f'mode is {mode!r}: use "a" to append (and read) or "r" to read')
    settings = load_settings(
        durability=durability,
        compression=compression,
        segment_bytes=segment_bytes,
        consumer_idle_s=consumer_idle_s,
    )
    if retention is not None:
        check_retention(retention)
    elif settings.retention_age_s or settings.retention_bytes:
        retention = Retention(settings.retention_age_s or None, settings.retention_bytes)
    return Engine(local_path(path), mode, settings, retention)
