"""The records of a Raft log, and the state that they add up to; `raftlog` has their table."""

import struct

import msgspec

from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import Corrupt
from ithaca.raft.messages import DurableState, Entry, HardState, Snapshot

RECORD_HEAD = struct.Struct("<IB3x")
HARD_STATE, SNAPSHOT, ENTRIES, CUT = 1, 2, 3, 4

_hard_state_decoder = msgspec.msgpack.Decoder(HardState)
_snapshot_decoder = msgspec.msgpack.Decoder(Snapshot)
_entries_decoder = msgspec.msgpack.Decoder(tuple[Entry, ...])
_cut_decoder = msgspec.msgpack.Decoder(int)


class Replay:
    """The state that the records so far add up to."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._hard_state = HardState()
        self._snapshot = Snapshot()
        self._entries: list[Entry] = []

    @property
    def state(self) -> DurableState:
        return DurableState(self._hard_state, self._snapshot, tuple(self._entries))

    def group(self, body: bytes, offset: int) -> None:
        """Take the records of one checked group; what does not fit was never written by us."""
        place = 0
        try:
            while place < len(body):
                length, kind = RECORD_HEAD.unpack_from(body, place)
                place += RECORD_HEAD.size
                if length > len(body) - place:
                    raise ValueError(f"a record of {length} bytes does not fit its group")
                self._record(kind, body[place : place + length])
                place += length + -length % 8
        except (*UNDECODABLE, ValueError, struct.error) as error:
            raise Corrupt(str(error), file=self._path, offset=offset) from error

    def _record(self, kind: int, data: bytes) -> None:
        if kind == HARD_STATE:
            self._hard_state = _hard_state_decoder.decode(data)
        elif kind == SNAPSHOT:
            self._snapshot = _snapshot_decoder.decode(data)
            self._entries = []
        elif kind == ENTRIES:
            self._append(_entries_decoder.decode(data))
        elif kind == CUT:
            self._cut(_cut_decoder.decode(data))
        else:
            raise ValueError(f"record type {kind} is unknown")

    def _cut(self, index: int) -> None:
        base = self._snapshot.index + 1
        if index < base:
            raise ValueError(f"entry {index} cannot go: it is part of the snapshot")
        del self._entries[index - base :]

    def _append(self, entries: tuple[Entry, ...]) -> None:
        base = self._snapshot.index + 1
        if not entries or not base <= entries[0].index <= base + len(self._entries):
            raise ValueError("entries do not continue the log")
        del self._entries[entries[0].index - base :]
        for entry in entries:
            if entry.index != base + len(self._entries):
                raise ValueError(f"entry {entry.index} is not in its place")
            self._entries.append(entry)
