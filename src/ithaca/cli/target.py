"""Which log a command works on: the only place of the command line that opens one."""

from pathlib import Path
from typing import TYPE_CHECKING

from ithaca.cli.options import CompressionName, DurabilityName

if TYPE_CHECKING:
    from ithaca.model.interface import Log


def open_reader(path: Path) -> "Log":
    """The log at `path`, for reading; `NoSuchLog` when there is none."""
    import ithaca

    return ithaca.open(path, mode="r")


def open_writer(
    path: Path,
    *,
    create: bool,
    durability: DurabilityName = "fsync",
    compression: CompressionName = "none",
) -> "Log":
    """The log at `path`, for writing; made if missing when `create`, else `NoSuchLog`."""
    import ithaca

    if not create:  # a mistyped path must not leave an empty log behind
        open_reader(path).close()
    return ithaca.open(path, durability=durability, compression=compression)
