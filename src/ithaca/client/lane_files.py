"""The segments of a lane that a server of this machine writes, or has written, for who reads them itself."""

from ithaca.model.positions import LaneId
from ithaca.runtime.machine import local_disk
from ithaca.storage.reader import LaneReader
from ithaca.storage.segment import first_lsns


class LaneFiles(LaneReader):
    """A lane in a directory of its own, of which so many records may be read."""

    def __init__(self, directory: str, lane: LaneId, length: int) -> None:
        super().__init__(local_disk(), directory, lane)
        self.length = length
        self.refresh()

    def refresh(self) -> None:
        self.first_lsns = first_lsns(self.disk.list(self.directory))
