"""What belongs to Raft's messages and travels beside them: the batches of ranges; and what snapshots refer to."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from ithaca.engines.raft.replog.entries import Range, check_bytes, range_in
from ithaca.engines.raft.storage.shared_log import SEED, SharedLog
from ithaca.model.errors import Corrupt, ProtocolError
from ithaca.model.records import Buffer
from ithaca.raft.messages import AnyMessage, AppendEntries, Entry, ServerId, Snapshot
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.wire.batch import Batch, parse


class RangeCargo:
    """A `server.raft_host.host.Cargo`."""

    def __init__(self, store: Callable[[], SharedLog], driver: Callable[[], RaftDriver]) -> None:
        self._store = store
        self._driver = driver
        self.fetch: Callable[[Snapshot, ServerId], None] = _nobody
        self.heard: Callable[[int], None] = _ignored
        """Told what a leader says to be agreed on."""

    def load(self, message: AnyMessage) -> Sequence[Buffer]:
        """The batches that this server has of the ranges: in memory as a rule, and from its disk for who is behind."""
        if not isinstance(message, AppendEntries):
            return ()
        store = self._store()
        return [
            buffer
            for entry in message.entries
            if (of := range_in(entry)) is not None
            for batch in store.batches_of(entry.index, entry.term, of)
            for buffer in batch.buffers()
        ]

    def unload(self, message: AnyMessage, payload: Buffer) -> None:
        entries = message.entries if isinstance(message, AppendEntries) else ()
        ranges = [(entry, of) for entry in entries if (of := range_in(entry)) is not None]
        for (_, one), (_, other) in pairwise(ranges):
            if one.end_lsn != other.first_lsn:
                raise ProtocolError(f"a range that ends at LSN {one.end_lsn} is followed by one at {other.first_lsn}")
        staging, driver = self._store().staging, self._driver()
        staging.keep(driver.has_entry)
        for entry, batches in _divided(ranges, payload):
            if not driver.has_entry(entry.index, entry.term):
                staging.put(entry.index, entry.term, batches)
        if isinstance(message, AppendEntries) and message.term >= driver.term:
            self.heard(message.commit_index)


def _divided(ranges: list[tuple[Entry, Range]], payload: Buffer) -> list[tuple[Entry, list[Batch]]]:
    found: list[tuple[Entry, list[Batch]]] = []
    offset = 0
    try:
        for entry, of in ranges:
            batches: list[Batch] = []
            for _ in of.batches:
                batches.append(parse(payload, offset))
                offset += batches[-1].total_bytes
            check_bytes(of, batches, SEED)
            found.append((entry, batches))
    except Corrupt as error:
        raise ProtocolError(f"the batches of a range do not check out: {error}") from error
    if offset != len(payload):
        raise ProtocolError(f"{len(payload) - offset} bytes came that belong to no range")
    return found


def _nobody(snapshot: Snapshot, leader: ServerId) -> None:
    raise AssertionError("snapshots are fetched once the server was started")


def _ignored(commit_index: int) -> None:
    """Nobody has to know yet."""
