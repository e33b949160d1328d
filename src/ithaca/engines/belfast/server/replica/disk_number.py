"""Which disk a replica has: the number of the first start in its directory, which no other directory of it has.

A directory that was emptied gets another number, since a file says it that was emptied too; and so does one in which
only that file is missing, of which nobody knows what else it has lost.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.limits import BOOT_MAX
from ithaca.storage import checked_file
from ithaca.storage.disk import Disk

NAME = "disk"


class DiskNumber(msgspec.Struct, frozen=True):
    """What the file says."""

    number: Annotated[int, Meta(ge=1, le=BOOT_MAX)]


def disk_number(disk: Disk, directory: str, boot: int) -> int:
    """The number of the disk, which this start gives it if it has none."""
    path = f"{directory}/{NAME}"
    if disk.exists(path):
        return checked_file.load_value(disk, path, DiskNumber).number
    checked_file.replace(disk, directory, NAME, msgspec.msgpack.encode(DiskNumber(boot)))
    return boot
