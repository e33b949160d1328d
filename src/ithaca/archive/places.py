"""Where a backup lies: a directory, or an object store by its URL, through fsspec.

A file is there under its name whole, or not at all: whatever ends a run, there is nothing in between. In a directory it
is written beside, synced and renamed. Most object stores put whole objects only; other stores that fsspec knows are
treated like a directory, without the syncs.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol

from ithaca.model.errors import InvalidInput, Unsupported
from ithaca.model.limits import MIB
from ithaca.model.paths import AnyPath, local_path

PART: Final = ".part"
"""The end of the name of what is being written."""
SYNC_BYTES: Final = 4 * MIB
"""What is written to a directory between two syncs."""
WHOLE_PUTS: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "oss", "memory"})
"""Protocols of stores in which an object that is put is there whole or not at all."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


class Place(Protocol):
    """The files of one backup."""

    def names(self) -> list[str]:
        """What is there, sorted; nothing where there is no such place."""

    def read(self, name: str) -> bytes: ...

    def size(self, name: str) -> int: ...

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Durable when this returns; the place is made if need be."""

    def remove(self, name: str) -> None: ...

    def file(self, name: str) -> str:
        """What a file is called in messages."""


class Directory:
    """On this machine; what is written is synced."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def __str__(self) -> str:
        return str(self._path)

    def names(self) -> list[str]:
        return sorted(os.listdir(self._path)) if self._path.is_dir() else []

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def size(self, name: str) -> int:
        return (self._path / name).stat().st_size

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = self._path / (name + PART)
        with part.open("wb", buffering=MIB) as output:
            unsynced = 0
            for piece in pieces:
                output.write(piece)
                unsynced += len(piece)
                if unsynced >= SYNC_BYTES:
                    # Else a log on the same disk has its next sync wait for all of it.
                    output.flush()
                    os.fdatasync(output.fileno())
                    unsynced = 0
            output.flush()
            os.fsync(output.fileno())
        part.replace(self._path / name)
        directory = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def remove(self, name: str) -> None:
        (self._path / name).unlink()

    def file(self, name: str) -> str:
        return str(self._path / name)


class Store:
    """Somewhere else, by a URL; fsspec's own settings say who one is there."""

    def __init__(self, url: str, protocol: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise Unsupported(f"{url}: URLs of object stores need the package fsspec: pip install fsspec") from None
        try:
            self._store, self._root = fsspec.core.url_to_fs(url)
        except ImportError as error:  # fsspec is there, and what it needs for this protocol is not
            raise Unsupported(f"{url}: {error}") from None
        except ValueError as error:
            raise InvalidInput(f"{url}: {error}; name a directory, or a URL such as s3://bucket/backup") from None
        self._url = url.rstrip("/")
        self._puts_whole = protocol in WHOLE_PUTS

    def __str__(self) -> str:
        return self._url

    def names(self) -> list[str]:
        self._store.invalidate_cache()
        try:
            found: list[Any] = self._store.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(path).rstrip("/").rpartition("/")[2] for path in found)

    def read(self, name: str) -> bytes:
        return bytes(self._store.cat_file(self._path(name)))

    def size(self, name: str) -> int:
        return int(self._store.size(self._path(name)))

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        path = self._path(name)
        self._store.makedirs(self._root, exist_ok=True)
        if self._puts_whole:
            self._store.pipe_file(path, b"".join(pieces))
        else:
            self._store.pipe_file(path + PART, b"".join(pieces))
            self._store.mv(path + PART, path)

    def remove(self, name: str) -> None:
        self._store.rm_file(self._path(name))

    def file(self, name: str) -> str:
        return f"{self._url}/{name}"

    def _path(self, name: str) -> str:
        return f"{str(self._root).rstrip('/')}/{name}"


def is_url(place: object) -> bool:
    """Whether this names an object store and not a directory."""
    return isinstance(place, str) and _URL.match(place) is not None


def place_of(place: AnyPath) -> Place:
    """The place that a path or a URL names.

    >>> place_of("file:///backups/events").file("backup")
    '/backups/events/backup'
    """
    url = _URL.fullmatch(place) if isinstance(place, str) else None
    if url is None:
        return Directory(local_path(place))
    if url[1].lower() == "file":
        return Directory(local_path(url[2]))
    return Store(url[0], url[1].lower())
