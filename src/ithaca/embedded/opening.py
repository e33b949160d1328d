"""Opening the embedded log: `ithaca.open`."""

import os
from datetime import timedelta
from typing import Literal

from ithaca.embedded.engine import Engine
from ithaca.embedded.log import EmbeddedLog
from ithaca.model import interface
from ithaca.model.config.log import load_settings
from ithaca.model.errors import InvalidInput
from ithaca.model.records import Compression, Durability, Retention


def open(
    path: str | os.PathLike[str],
    *,
    mode: Literal["a", "r"] = "a",
    durability: Durability | None = None,
    compression: Compression | None = None,
    retention: Retention | None = None,
    segment_bytes: int | None = None,
) -> interface.Log:
    """Open the log in a directory, creating it if need be; with `mode="r"`, read along with its writer.

    `durability="os"` acknowledges what is in the page cache only: it survives the process, not the power.
    What is left out comes from `ITHACA_*` in the environment, then from the file that `ITHACA_CONFIG`
    names, then from the defaults ("fsync", "none", everything kept).

    >>> import ithaca
    >>> with ithaca.open("./events") as log:
    ...     log.append(b"hello").position
    1
    """
    return EmbeddedLog(open_engine(path, mode, durability, compression, retention, segment_bytes))


def open_engine(
    path: str | os.PathLike[str],
    mode: Literal["a", "r"],
    durability: Durability | None,
    compression: Compression | None,
    retention: Retention | None,
    segment_bytes: int | None,
) -> Engine:
    """The log behind either face."""
    if mode not in ("a", "r"):
        raise InvalidInput(f'mode is {mode!r}: use "a" to append (and read) or "r" to read')
    settings = load_settings(durability=durability, compression=compression, segment_bytes=segment_bytes)
    if retention is None and (settings.retention_age_s or settings.retention_bytes):
        age = timedelta(seconds=settings.retention_age_s) if settings.retention_age_s else None
        retention = Retention(age=age, bytes=settings.retention_bytes)
    return Engine(os.fspath(path), mode, settings, retention)
