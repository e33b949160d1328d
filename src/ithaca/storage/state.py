"""What the entries of a lane add up to: its length, its time, its trim point, its sessions, consumers and holes.

The state is a pure function of the entries. A snapshot entry holds all of it but the length, which is the
entry's own base LSN: exactly what the entries before it add up to, so that a lane can be cut behind any of
its snapshots. (Earlier versions wrote some that include entries behind them; replaying those changes nothing.)
"""

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from ithaca.consumers.table import ConsumerChanges, ConsumerTable, PackedConsumers
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import Corrupt
from ithaca.storage.sessions import SessionForgotten, SessionOpened, SessionTable, Snapshot
from ithaca.wire.batch import CONTROL, NOOPS, SNAPSHOT, Batch
from ithaca.wire.build import bookkeeping

_Lsn = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class TrimmedTo(msgspec.Struct, frozen=True, tag="trimmed"):
    """Control entry: nothing below this LSN is read any more."""

    lsn: _Lsn


class Named(msgspec.Struct, frozen=True, tag="named"):
    """Control entry of the engine `raft`: the batches behind it are the range of this entry of the Raft log.

    It counts as long as the Raft log ends where it did then (`raftlog.Place`), and is nothing to the lane itself.
    """

    generation: int
    offset: int
    index: int
    term: int
    data: bytes


class ConsumersChanged(msgspec.Struct, frozen=True, tag="consumers"):
    """Control entry of an embedded log: what was asked of its named consumers."""

    changes: ConsumerChanges


T = TypeVar("T")
Control = SessionOpened | SessionForgotten | TrimmedTo | Named | ConsumersChanged


class _Snapshot(msgspec.Struct, frozen=True):
    trim_lsn: _Lsn
    sessions: Snapshot
    has_holes: bool = False
    consumers: PackedConsumers | msgspec.UnsetType = msgspec.UNSET


class LaneState:
    """Where a lane stands after some of its entries."""

    def __init__(self) -> None:
        self.length = 0
        self.time_us = 0
        """The order's own time: the running maximum of the batches' timestamps."""
        self.trim_lsn = 0
        self.sessions = SessionTable()
        self.consumers = ConsumerTable()
        """Of an embedded log: those of a cluster are agreed on elsewhere."""
        self.has_holes = False
        """Whether there are no-ops in it, so that the sessions may have had batches that are not known.

        A copy has no-ops where its source had nothing left; the snapshot that comes behind them makes up for it.
        """

    @classmethod
    def restored(cls, entry: Batch) -> "LaneState":
        """The state that a snapshot entry holds."""
        if entry.kind != SNAPSHOT:
            raise Corrupt(f"a snapshot is due here, and not an entry of kind {entry.kind}")
        state = cls()
        body = _decode(entry, _snapshot_decoder)
        state.length, state.time_us = entry.base_lsn, entry.timestamp_us
        state.trim_lsn, state.sessions = body.trim_lsn, SessionTable(body.sessions)
        state.consumers, state.has_holes = ConsumerTable(body.consumers or None), body.has_holes
        return state

    def snapshot_entry(self) -> Batch:
        """The entry that holds all of this."""
        consumers = self.consumers.packed()
        body = _Snapshot(self.trim_lsn, self.sessions.snapshot(), self.has_holes, consumers or msgspec.UNSET)
        return bookkeeping(SNAPSHOT, msgspec.msgpack.encode(body), timestamp_us=self.time_us)

    def apply(self, entry: Batch) -> None:
        """Take in the lane's next entry."""
        if entry.count:
            self.length = entry.end_lsn
            self.time_us = max(self.time_us, entry.timestamp_us)
            self.has_holes = self.has_holes or entry.kind == NOOPS
            if entry.producer_id:
                self.sessions.apply_batch(entry)
        elif entry.kind == CONTROL:
            self._apply_control(control_in(entry))
        elif entry.kind == SNAPSHOT and self.has_holes:
            body = _decode(entry, _snapshot_decoder)
            self.sessions, self.has_holes = self.sessions.replaced(body.sessions), body.has_holes
            self.time_us = max(self.time_us, entry.timestamp_us)

    def _apply_control(self, control: Control) -> None:
        match control:
            case TrimmedTo(lsn):
                self.trim_lsn = max(self.trim_lsn, lsn)
            case SessionOpened():
                self.sessions.apply_opened(control)
            case SessionForgotten():
                self.sessions.apply_forgotten(control)
            case ConsumersChanged(changes):
                self.consumers.apply(changes)
            case Named():
                pass


def control_entry(control: Control) -> Batch:
    """The entry that makes a change of state durable."""
    return bookkeeping(CONTROL, msgspec.msgpack.encode(control))


def control_in(entry: Batch) -> Control:
    """The inverse of `control_entry`."""
    return _decode(entry, _control_decoder)


_control_decoder: msgspec.msgpack.Decoder[Control] = msgspec.msgpack.Decoder(Control)
_snapshot_decoder = msgspec.msgpack.Decoder(_Snapshot)


def _decode(entry: Batch, decoder: "msgspec.msgpack.Decoder[T]") -> "T":
    try:
        return decoder.decode(entry.control_body())
    except UNDECODABLE as error:
        raise Corrupt(f"an entry of kind {entry.kind} at LSN {entry.base_lsn} cannot be decoded: {error}") from error
