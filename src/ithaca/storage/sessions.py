"""Exactly once: which batches of which producer sessions a lane holds, by the rule of `ithaca.sessions`.

The table is pure state. It is rebuilt from a snapshot and the batches behind it, and every change can be
applied twice without harm, because snapshots of earlier versions may include batches that follow them.

An embedded log opens and expires its sessions by control entries. A lane of a cluster has none: there
sessions are opened by the ordering layer, and the lane learns of them from their batches. What the ordering layer
says of them reaches each copy by itself, and none of it is written down: `expired`, of a session that never comes
back, and `listed`, who was at home in the lane when so much of it was ordered. Whoever has batches below that and was
not at home any more had expired or moved away, and never comes back to this lane. So a copy may forget it when it
hears of that, sooner or later than the others: of what it answers, only what is still at home can be moved from here.
Beyond `LANE_SESSIONS_MAX`, which is more than can be at home, a copy drops the one unused for longest and is
*forgetful* from then on: it no longer says of a session that it does not know that it has none of its batches.
"""

from collections import OrderedDict
from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.errors import SessionExpired, Unavailable
from ithaca.model.limits import LANE_SESSIONS_GONE_MAX, LANE_SESSIONS_MAX, SESSION_BATCHES_MAX, SESSIONS_MAX
from ithaca.sessions.continuing import check_epoch, earlier
from ithaca.wire.batch import Batch

_Natural = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class AppendedBatch(msgspec.Struct, frozen=True, array_like=True):
    """Where a batch of a session went."""

    first_seq: _Natural
    count: _Natural
    base_lsn: _Natural


class SessionState(msgspec.Struct, array_like=True):
    """One named session."""

    producer_id: Annotated[int, Meta(ge=0)]
    name: str
    epoch: _Natural
    next_seq: _Natural = 1
    placed: list[AppendedBatch] = msgspec.field(default_factory=list)


class SessionOpened(msgspec.Struct, frozen=True, tag="session-opened"):
    """Control entry: the session exists from here on under this epoch; lower epochs are fenced."""

    producer_id: _Natural
    name: str
    epoch: _Natural


class SessionForgotten(msgspec.Struct, frozen=True, tag="session-forgotten"):
    """Control entry: the session has expired."""

    producer_id: int


class Snapshot(msgspec.Struct, frozen=True):
    """The whole table, as a segment's snapshot entry holds it."""

    next_producer_id: _Natural
    sessions: list[SessionState]
    forgetful: bool = False


class SessionTable:
    """Sessions by producer id, the one unused for longest first."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self._next_producer_id = snapshot.next_producer_id if snapshot else 1
        self.forgetful = snapshot is not None and snapshot.forgetful
        """Whether sessions that batches had made known were dropped."""
        self._by_id: OrderedDict[int, SessionState] = OrderedDict()
        self._id_of_name: dict[str, int] = {}
        self._gone: OrderedDict[int, None] = OrderedDict()
        """The last that have expired: a copy may get their last batches later than that."""
        self._at_home: frozenset[int] = frozenset()
        self._listed_lsn = 0
        """Of what is below this, only batches of those `_at_home` count."""
        for state in snapshot.sessions if snapshot else ():
            self._by_id[state.producer_id] = state
            if state.name:
                self._id_of_name[state.name] = state.producer_id

    def __len__(self) -> int:
        return len(self._by_id)

    def snapshot(self) -> Snapshot:
        return Snapshot(self._next_producer_id, list(self._by_id.values()), self.forgetful)

    def replaced(self, snapshot: Snapshot) -> "SessionTable":
        """The table of a snapshot that takes this one's place, with what the ordering layer has said so far."""
        table = SessionTable(snapshot)
        table._gone = self._gone
        if self._listed_lsn:
            table.listed(self._at_home, self._listed_lsn)
        return table

    def opening(self, name: str) -> tuple[SessionOpened, SessionForgotten | None]:
        """The entries that open a session: it, and the expiry of another when the table is full."""
        known = self._id_of_name.get(name)
        if known is not None:
            return SessionOpened(known, name, self._by_id[known].epoch + 1), None
        expired = SessionForgotten(next(iter(self._by_id))) if len(self._by_id) >= SESSIONS_MAX else None
        return SessionOpened(self._next_producer_id, name, 1), expired

    def next_seq(self, producer_id: int, epoch: int) -> int:
        """The number that continues the session."""
        return self._current(producer_id, epoch).next_seq

    def place_of(self, producer_id: int, epoch: int, first_seq: int, count: int) -> int | None:
        """The base LSN of an earlier equal batch, None when the batch is the next; raises otherwise."""
        placed = earlier(self._current(producer_id, epoch), first_seq, count)
        return None if placed is None else placed.base_lsn

    def apply_batch(self, batch: Batch) -> None:
        """Note a batch that is in the lane."""
        state = self._by_id.get(batch.producer_id)
        if state is None:
            if batch.producer_id < self._next_producer_id:  # opened by a control entry, and expired by one
                return
            if batch.producer_id in self._gone or self._has_left(batch.producer_id, batch.end_lsn):
                return
            state = self._learn(batch)
        elif batch.first_seq < state.next_seq:
            return
        state.epoch = max(state.epoch, batch.producer_epoch)
        state.placed = [*state.placed, AppendedBatch(batch.first_seq, batch.count, batch.base_lsn)][
            -SESSION_BATCHES_MAX:
        ]
        state.next_seq = batch.first_seq + batch.count
        self._by_id.move_to_end(batch.producer_id)

    def expired(self, producer_id: int) -> None:
        """The ordering layer says that the session of a cluster has expired."""
        self._by_id.pop(producer_id, None)
        self._gone[producer_id] = None
        if len(self._gone) > LANE_SESSIONS_GONE_MAX:
            self._gone.popitem(last=False)

    def listed(self, at_home: frozenset[int], lsn: int) -> None:
        """The ordering layer says who was at home in a cluster's lane when it was ordered up to `lsn`."""
        self._at_home, self._listed_lsn = at_home, lsn
        for producer_id, state in list(self._by_id.items()):
            last = state.placed[-1] if state.placed else None
            if last is not None and self._has_left(producer_id, last.base_lsn + last.count):
                del self._by_id[producer_id]

    def _has_left(self, producer_id: int, end_lsn: int) -> bool:
        """Whether a session with a batch that ends here was not at home any more when that was ordered, or later."""
        return end_lsn <= self._listed_lsn and producer_id not in self._at_home

    def _learn(self, batch: Batch) -> SessionState:
        if len(self._by_id) >= LANE_SESSIONS_MAX:
            self._by_id.popitem(last=False)
            self.forgetful = True
        state = self._by_id[batch.producer_id] = SessionState(batch.producer_id, "", batch.producer_epoch)
        return state

    def placed_of(self, producer_id: int) -> list[AppendedBatch]:
        """The last batches of a session in this lane; `Unavailable` when there may have been some."""
        state = self._by_id.get(producer_id)
        if state is not None:
            return state.placed
        if self.forgetful:
            raise Unavailable(
                f"this copy of the lane has had more than {LANE_SESSIONS_MAX} sessions, and cannot say what it holds "
                f"of producer {producer_id}: ask another; if none can, expire the session by its name"
            )
        return []

    def apply_opened(self, entry: SessionOpened) -> None:
        state = self._by_id.get(entry.producer_id)
        if state is None and entry.producer_id >= self._next_producer_id:
            self._by_id[entry.producer_id] = SessionState(entry.producer_id, entry.name, entry.epoch)
            self._id_of_name[entry.name] = entry.producer_id
            self._next_producer_id = entry.producer_id + 1
        elif state is not None and entry.epoch > state.epoch:
            state.epoch = entry.epoch
            self._by_id.move_to_end(entry.producer_id)

    def apply_forgotten(self, entry: SessionForgotten) -> None:
        state = self._by_id.pop(entry.producer_id, None)
        if state is not None:
            self._id_of_name.pop(state.name, None)

    def _current(self, producer_id: int, epoch: int) -> SessionState:
        state = self._by_id.get(producer_id)
        if state is None:
            raise self._has_expired(producer_id)
        check_epoch(state, epoch)
        return state

    def _has_expired(self, producer_id: int) -> SessionExpired:
        return SessionExpired(
            f"the session (producer {producer_id}) has expired: {SESSIONS_MAX} others were used since; "
            "open it again, and find out which of its records are there before going on"
        )
