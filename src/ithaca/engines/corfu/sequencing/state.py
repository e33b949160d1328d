"""What Raft agrees on: the projection of each epoch, the bound, the sessions, the consumers and the trim point.

`apply` is a pure function of the state and the entry. The next projection is computed here, from what was sealed, and
not by whoever proposes: so whoever seals, and whatever else is decided meanwhile, each projection follows one.
"""

from collections import OrderedDict

import msgspec

from ithaca.consumers.table import ConsumerChanges, ConsumerTable
from ithaca.engines.corfu.sequencing.calls import Known
from ithaca.engines.corfu.sequencing.commands import (
    AddUnit,
    Command,
    ConsumersTold,
    ExpireSession,
    FoundLog,
    Grant,
    NextEpoch,
    OpenSession,
    Outcome,
    SessionIs,
    SessionsAre,
    Settled,
    TrimLog,
    Void,
)
from ithaca.engines.corfu.sequencing.limits import RANGES_MAX, ROW_MAX, UNITS_MAX
from ithaca.engines.corfu.sequencing.projection import Chain, Projection, Range, UnitMember
from ithaca.engines.corfu.sequencing.rows import row_of
from ithaca.engines.corfu.sequencing.snapshot import Snapshot, decode_snapshot, encode_snapshot
from ithaca.model.limits import ORDERING_NAMED_SESSIONS_MAX, ORDERING_SESSIONS_MAX
from ithaca.model.positions import FIRST

ANONYMOUS = "~"
"""Names of sessions that nobody opens again begin with this."""


class ProjectionState:
    """Where the group stands after some entries."""

    def __init__(self) -> None:
        self.index = 0
        self.founded: FoundLog | None = None
        self.projection: Projection | None = None
        self.bound = 0
        self.trim = FIRST
        self.time_us = 0
        self.unit_last = 0
        self.sizes: tuple[int, ...] = ()
        """How many units each set is to have."""
        self._producer_last = 0
        self._sessions: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Producer and epoch by name, the one that was opened longest ago first."""
        self.consumers = ConsumerTable()

    @property
    def known(self) -> Known | None:
        if self.projection is None:
            return None
        founded = self.founded
        sequencers = () if founded is None else founded.sequencers
        return Known(self.projection, self.bound, self.trim, self.time_us, self.unit_last, sequencers, self.sizes)

    @property
    def sessions(self) -> SessionsAre:
        return SessionsAre(tuple(session for session in self._sessions.values() if session[1] > 1))

    def session(self, producer: int) -> SessionsAre:
        """One session, if there is such a one."""
        return SessionsAre(tuple(session for session in self._sessions.values() if session[0] == producer))

    def apply(self, index: int, command: Command) -> Outcome:
        """Take in the entry at this index."""
        assert index > self.index, f"entry {index} comes after entry {self.index}"
        self.index = index
        if isinstance(command, FoundLog):
            return self._found(command)
        projection = self.projection
        if projection is None:
            return Void("the log was not founded yet")
        match command:
            case NextEpoch():
                return self._next(projection, command)
            case Grant(epoch, bound) if epoch == projection.epoch:
                self.bound = max(self.bound, min(bound, ROW_MAX))
            case Settled(epoch) if epoch == projection.epoch:
                if projection.is_begun:
                    return self._void(f"the sequencer of epoch {epoch} has begun before")
                self.projection = msgspec.structs.replace(projection, settled=projection.start, is_begun=True)
            case TrimLog(epoch, before) if epoch == projection.epoch:
                self.trim = max(self.trim, before)
            case AddUnit():
                return self._add_unit(projection, command)
            case OpenSession(name):
                return self._open(name)
            case ExpireSession(name):
                self._sessions.pop(name, None)
            case ConsumerChanges():
                return ConsumersTold(self.consumers.apply(command))
            case _:
                return self._void(f"epoch {command.epoch} is not {projection.epoch}, which holds now")
        return self._told()

    # Projections

    def _found(self, command: FoundLog) -> Outcome:
        if self.projection is not None:
            return self._void("the log was founded before")
        self.founded = command
        self.projection = Projection(1, (Range(0, command.sets),), command.units, command.sequencer)
        self.bound = command.grant
        self.unit_last = max(unit.number for unit in command.units)
        self.sizes = tuple(map(len, command.sets))
        return self._told()

    def _next(self, projection: Projection, command: NextEpoch) -> Outcome:
        if command.epoch != projection.epoch:
            return self._void(f"epoch {command.epoch} was followed by another one already")
        if command.highest >= self.bound:
            return self._void(f"row {command.highest} was never granted")
        sealed = frozenset(command.sealed)
        units = tuple(unit for unit in projection.units if unit.number in sealed)
        reason = _objection(projection, command, units) or self._set_objection(command)
        if reason:
            return self._void(reason)
        self.projection = Projection(
            projection.epoch + 1,
            _followed(projection, command, self.bound),
            units,
            command.sequencer,
            projection.settled,
        )
        self.sizes = command.sizes or self.sizes
        self.bound = min(self.bound + command.grant, ROW_MAX)
        self.time_us = max(self.time_us, command.time_us)
        return self._told()

    def _set_objection(self, command: NextEpoch) -> str:
        """Why the sets, or what is finished, cannot be this; empty if they can."""
        sizes = command.sizes or self.sizes
        if not len(self.sizes) <= len(sizes) == len(command.sets):
            return f"there are {len(self.sizes)} sets, and {len(command.sets)} of {len(sizes)} sizes are to follow"
        if command.finished > row_of(self.trim):
            return f"what lies before row {command.finished} was not trimmed yet"
        return ""

    def _add_unit(self, projection: Projection, command: AddUnit) -> Outcome:
        if any(unit.identity == command.identity for unit in projection.units):
            return self._told()
        if len(projection.units) >= UNITS_MAX:
            return self._void(f"there are {UNITS_MAX} units already")
        self.unit_last += 1
        unit = UnitMember(self.unit_last, command.address, command.identity)
        self.projection = msgspec.structs.replace(projection, units=(*projection.units, unit))
        return self._told()

    # Sessions

    def _open(self, name: str) -> Outcome:
        known = self._sessions.get(name)
        if known is None:
            if len(self._sessions) >= ORDERING_SESSIONS_MAX and not self._let_anonymous_go():
                return self._void(f"there are {ORDERING_NAMED_SESSIONS_MAX} named sessions: expire some")
            self._producer_last += 1
            known = (self._producer_last, 0)
        producer, epoch = known
        self._sessions[name] = producer, epoch + 1
        self._sessions.move_to_end(name)
        return SessionIs(name, producer, epoch + 1, self._told())

    def _let_anonymous_go(self) -> bool:
        """Make room; nobody opens an anonymous session again, so nothing has to be known of it."""
        name = next((name for name in self._sessions if name.startswith(ANONYMOUS)), None)
        if name is not None:
            del self._sessions[name]
        return name is not None

    # What is told

    def _told(self) -> Known:
        known = self.known
        assert known is not None
        return known

    def _void(self, reason: str) -> Void:
        return Void(reason, self.known)

    # Snapshots

    def snapshot(self) -> bytes:
        """The whole state."""
        return encode_snapshot(
            Snapshot(
                self.index,
                self.founded,
                self.projection,
                self.bound,
                self.trim,
                self.time_us,
                self.unit_last,
                self.sizes,
                self._producer_last,
                [(name, *session) for name, session in self._sessions.items()],
                self.consumers.packed(),
            )
        )

    @classmethod
    def restored(cls, data: bytes) -> "ProjectionState":
        """The state of a snapshot; `FormatTooNew` or `Corrupt` when it cannot be read."""
        snapshot = decode_snapshot(data)
        state = cls()
        state.index = snapshot.index
        state.founded, state.projection = snapshot.founded, snapshot.projection
        state.bound, state.trim, state.time_us = snapshot.bound, snapshot.trim, snapshot.time_us
        state.unit_last, state.sizes = snapshot.unit_last, snapshot.sizes
        state._producer_last = snapshot.producer_last
        state._sessions = OrderedDict((name, (producer, epoch)) for name, producer, epoch in snapshot.sessions)
        state.consumers = ConsumerTable(snapshot.consumers)
        return state


def _objection(projection: Projection, command: NextEpoch, units: tuple[UnitMember, ...]) -> str:
    """Why the next projection cannot be this one; empty if it can."""
    there = frozenset(unit.number for unit in units)
    for chain in projection.chains():
        if not there.intersection(chain):
            return f"none of the units {', '.join(map(str, chain))} was sealed, and they have rows that no other has"
    used = [unit for chain in command.sets for unit in chain]
    if not all(command.sets) or len(set(used)) < len(used):
        return "a chain is empty, or a unit is in two"
    strangers = {*used, *(each.unit for each in command.joined)} - there
    if strangers:
        return f"unit {min(strangers)} was not sealed, or is not there"
    settled = {each.start for each in projection.ranges if (projection.stop_of(each) or ROW_MAX) <= projection.settled}
    if not settled.issuperset(each.start for each in command.joined):
        return "a copy was made of a range that is not settled"
    if len(projection.ranges) + 2 > RANGES_MAX:
        return f"the projection has {len(projection.ranges)} ranges already"
    return ""


def _followed(projection: Projection, command: NextEpoch, bound: int) -> tuple[Range, ...]:
    """The ranges of the next epoch: what was active ends behind the highest row, and what lies between is empty."""
    ranges = [Range(each.start, _left(each, command)) for each in projection.ranges]
    active = ranges.pop()
    if command.highest >= active.start:
        ranges.append(active)
    if not ranges or ranges[-1].sets:
        ranges.append(Range(max(active.start, command.highest + 1)))
    if ranges[-1].start == bound:
        ranges.pop()
    return _compacted([*ranges, Range(bound, command.sets)], command.finished)


def _compacted(ranges: list[Range], finished: int) -> tuple[Range, ...]:
    """The ranges without the sets of those that are finished; empty ones that touch are one."""
    kept: list[Range] = []
    for each, following in zip(ranges, [*ranges[1:], None], strict=True):
        is_finished = following is not None and following.start <= finished
        sets = () if is_finished else each.sets
        if sets or not kept or kept[-1].sets:
            kept.append(Range(each.start, sets))
    return tuple(kept)


def _left(each: Range, command: NextEpoch) -> tuple[Chain, ...]:
    """The sets of a range without those that were not sealed, and with those that have copied it."""
    sealed = frozenset(command.sealed)
    sets = [tuple(unit for unit in chain if unit in sealed) for chain in each.sets]
    for joined in command.joined:
        if joined.start == each.start and joined.set < len(sets) and joined.unit not in sets[joined.set]:
            stay = tuple(unit for unit in sets[joined.set] if unit != joined.instead)
            sets[joined.set] = (*stay, joined.unit)
    return tuple(sets)
