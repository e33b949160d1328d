"""A snapshot that comes in chunks: what of it is there, in memory alone.

Chunks come one after the other, each sent when the one before was answered. One that is lost is sent again, one that
comes twice counts once. Only chunks of one snapshot of one leader in one term are joined: another leader may have
written the same state in other bytes. Whoever is restarted in between begins again.
"""

from ithaca.raft.messages import Snapshot, SnapshotChunk


class IncomingSnapshot:
    """The beginning of one snapshot."""

    def __init__(self, first: SnapshotChunk) -> None:
        self._name = _name(first)
        self._configuration = first.configuration
        self._data = bytearray()

    def is_of(self, chunk: SnapshotChunk) -> bool:
        return self._name == _name(chunk)

    @property
    def held(self) -> int:
        return len(self._data)

    def take(self, chunk: SnapshotChunk) -> Snapshot | None:
        """Add a chunk, if it is the next one; the snapshot, once it is whole."""
        if chunk.offset == len(self._data):
            self._data += chunk.data
        if len(self._data) < chunk.size:
            return None
        return Snapshot(chunk.index, chunk.snapshot_term, self._configuration, bytes(self._data))


def _name(chunk: SnapshotChunk) -> tuple[int, ...]:
    return chunk.sender, chunk.term, chunk.index, chunk.snapshot_term, chunk.size
