"""`ithaca stats`: what an embedded log holds, without disturbing its writer."""

import msgspec

from ithaca.embedded import directory
from ithaca.embedded.follower import Follower
from ithaca.model.errors import Corrupt
from ithaca.model.paths import AnyPath, local_path
from ithaca.model.positions import position_of
from ithaca.storage.directory_lock import is_locked
from ithaca.storage.disk import OsDisk
from ithaca.storage.reader import Cursor
from ithaca.storage.recovery import Inspected, inspect

_RACES_MAX = 10
"""Looks at a segment that is being written before damage is taken for damage."""


class Stats(msgspec.Struct, frozen=True):
    """Figures of one log; times are the producers', in microseconds since 1970, 0 when there is no record."""

    uuid: str
    first: int
    tail: int
    records: int
    segments: int
    bytes: int
    sessions: int
    oldest_us: int
    newest_us: int
    being_written: bool


def collect(path: AnyPath) -> Stats:
    """The figures of the log at `path`; `NoSuchLog` when there is none."""
    disk, path = OsDisk(), local_path(path)
    meta = directory.load_meta(disk, path)
    follower = Follower(disk, path)
    found = _inspect(disk, path)
    oldest_us = 0
    if follower.trim_lsn < follower.length:
        oldest_us = Cursor(follower, follower.trim_lsn).read(follower.trim_lsn + 1)[0].timestamp_us
    return Stats(
        uuid=meta.uuid,
        first=position_of(follower.trim_lsn),
        tail=position_of(follower.length),
        records=follower.length - follower.trim_lsn,
        segments=len(follower.first_lsns),
        bytes=sum(follower.segment(first).file.size() for first in follower.first_lsns),
        sessions=len(found.state.sessions),
        oldest_us=oldest_us,
        newest_us=found.state.time_us,
        being_written=is_locked(disk, path),
    )


def _inspect(disk: OsDisk, path: str) -> Inspected:
    for _ in range(_RACES_MAX):
        try:
            return inspect(disk, directory.lane_directory(path), directory.LANE, None, writable=False)
        except Corrupt:
            if not is_locked(disk, path):
                raise
    return inspect(disk, directory.lane_directory(path), directory.LANE, None, writable=False)
