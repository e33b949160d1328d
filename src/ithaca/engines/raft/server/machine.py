"""What the group agrees on, as Raft's state machine: `replog.LogState`, entry by entry."""

from collections.abc import Callable, Iterator

from ithaca.engines.raft.replog.entries import decode_entry
from ithaca.engines.raft.replog.state import Applied, LogState


class LogMachine:
    """The log as this server knows it to be agreed on. After a snapshot came, `state` is another object."""

    def __init__(self, trimmed: Callable[[int], None]) -> None:
        """`trimmed` is told the LSN below which nothing is read any more, when that changes."""
        self.state = LogState()
        self._trimmed = trimmed

    def apply(self, index: int, term: int, data: bytes) -> Applied:
        before = self.state.trim_lsn
        told = self.state.apply(decode_entry(data))
        if self.state.trim_lsn > before:
            self._trimmed(self.state.trim_lsn)
        return told

    def snapshot(self) -> Iterator[bytes]:
        return self.state.snapshot()

    def restore(self, index: int, data: bytes) -> None:
        self.state = LogState.restored(data)
        self._trimmed(self.state.trim_lsn)
