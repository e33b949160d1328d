"""`ithaca verify`: whether an embedded log is sound, byte for byte."""

import os
from collections.abc import Callable, Iterator

from ithaca.embedded import directory
from ithaca.model.errors import Corrupt
from ithaca.model.paths import AnyPath, local_path
from ithaca.storage.disk import OsDisk
from ithaca.storage.segment import first_lsns, name_of
from ithaca.storage.verify import Finding, verify_lane


def bytes_to_verify(path: AnyPath) -> int:
    """About how much `verify` will read."""
    lane = directory.lane_directory(local_path(path))
    return sum(os.path.getsize(f"{lane}/{name_of(first)}") for first in first_lsns(OsDisk().list(lane)))


def verify(path: AnyPath, advance: Callable[[int], object] = lambda count: None) -> Iterator[Finding]:
    """Everything that is wrong with the log at `path`; `NoSuchLog` when there is none.

    A log that is being written is checked up to where its writer was, give or take what it wrote meanwhile.
    """
    disk, path = OsDisk(), local_path(path)
    try:
        directory.load_meta(disk, path)
    except Corrupt as error:
        yield Finding(error.file, error.offset, str(error).partition(": ")[2])
    yield from verify_lane(disk, directory.lane_directory(path), directory.LANE, advance)
