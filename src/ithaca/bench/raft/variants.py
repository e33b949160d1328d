"""Servers of the engine raft as they are, and as they could have been: only measurements have the latter."""

from collections.abc import Callable

from msgspec.structs import replace

from ithaca.engines.raft.server.leading import RangeLeaderService
from ithaca.engines.raft.server.server import RaftServer
from ithaca.engines.raft.storage.shared_log import SharedLog, SharedLogFiles
from ithaca.raft.events import Persist
from ithaca.raft.messages import DurableState, Entry
from ithaca.runtime.connection import Connection
from ithaca.storage.disk import Disk
from ithaca.storage.lane import Lane
from ithaca.storage.raftlog import RaftLog
from ithaca.wire.batch import Batch


class NaiveLog(SharedLog):
    """A store without log sharing: payloads go through the Raft log, and then into the data log.

    Both are synced, as both are counted on. What a compaction keeps of the Raft log is not written again: of a naive
    store, too, that would be whole files. It is never read, so nobody starts a server of this kind again.
    """

    names_ranges = False

    def _persist_entries(self, effect: Persist) -> None:
        entries = tuple(self._with_payload(entry) for entry in effect.entries)
        super()._persist_entries(replace(effect, entries=entries))

    def _with_payload(self, entry: Entry) -> Entry:
        batches = self.staging.get(entry.index, entry.term)
        if batches is None:
            return entry
        payload = [buffer for batch in batches for buffer in batch.buffers()]
        return Entry(entry.index, entry.term, entry.kind, b"".join((entry.data, *payload)))


class NaiveFiles(SharedLogFiles):
    def _made(self, disk: Disk, directory: str, raft: RaftLog, state: DurableState, lane: Lane) -> SharedLog:
        return NaiveLog(disk, directory, raft, state, lane, self._segment_bytes)


class NaiveServer(RaftServer):
    files_type = NaiveFiles


class EachAlone(RangeLeaderService):
    """Every batch is a range of its own, proposed at once."""

    def append(self, connection: Connection, correlation: int, batch: Batch) -> None:
        super().append(connection, correlation, batch)
        self.flush()


class UngroupedServer(RaftServer):
    """Without group commit."""

    leading_type = EachAlone
    append_entries_max = 1


class UnpipelinedServer(RaftServer):
    """With one append on its way to each follower."""

    inflight_appends_max = 1


class UnpipelinedUngroupedServer(UngroupedServer):
    inflight_appends_max = 1


VARIANTS: dict[str, Callable[..., RaftServer]] = {
    "shared": RaftServer,
    "naive": NaiveServer,
    "no group commit": UngroupedServer,
    "no pipeline": UnpipelinedServer,
    "neither": UnpipelinedUngroupedServer,
}
