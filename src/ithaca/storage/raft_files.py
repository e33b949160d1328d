"""The Raft log as the file of a server's directory: made on the first start, opened on all others."""

from ithaca.model.limits import ZERO_AHEAD_BYTES
from ithaca.raft.messages import DurableState
from ithaca.storage.disk import Disk
from ithaca.storage.raftlog import FILE_NAME, RaftLog


class RaftLogFiles:
    """What a server that keeps its Raft log in `raft.log` hosts Raft with."""

    name = FILE_NAME

    def open(self, disk: Disk, directory: str) -> tuple[RaftLog, DurableState]:
        return RaftLog.open(disk, directory, zero_ahead_bytes=ZERO_AHEAD_BYTES)

    def create(self, disk: Disk, directory: str, state: DurableState) -> RaftLog:
        return RaftLog.create(disk, directory, state, zero_ahead_bytes=ZERO_AHEAD_BYTES)
