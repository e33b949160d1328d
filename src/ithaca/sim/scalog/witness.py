"""What can be judged of the order and of a lane's copies only in the moment of a call (`sim.rules.witness`)."""

from collections.abc import Callable, Iterator
from typing import Any

from ithaca.engines.scalog.ordering.clock import OrderClock
from ithaca.engines.scalog.ordering.decisions.spares import Spares
from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    Cut,
    ExpireIdle,
    ExpireSession,
    Finalize,
    MoveSession,
    OpenSession,
    OrderingEntry,
    RegisterShard,
)
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.outcomes import (
    ExpiredSession,
    FinalizedShard,
    Outcome,
    RefusedEntry,
    SessionMoved,
    SessionOpened,
    ViewChanged,
)
from ithaca.engines.scalog.ordering.prepared.entries import OpenPart
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.replica.facts import ReplicaFacts
from ithaca.model.limits import ORDERING_STATE_BYTES_MAX, ORDERING_STATE_RESERVE_BYTES
from ithaca.model.positions import LaneId
from ithaca.sim.rules.witness import Sight
from ithaca.sim.scalog.hosts import replica_of
from ithaca.sim.scalog.invariants import Invariants
from ithaca.sim.scalog.order_clock import TimeRules
from ithaca.sim.world import World
from ithaca.storage.sessions import SessionTable
from ithaca.users.names import ANONYMOUS


class ScalogWitness:
    """What was seen in one run."""

    def __init__(self, world: World, invariants: Invariants, times: TimeRules) -> None:
        self._world = world
        self._invariants = invariants
        self._times = times
        self._graces: dict[int, tuple[int, int]] = {}
        """Of each shard that got one: the first cut, and the first time, with which its grace may end."""

    def sights(self) -> list[Sight]:
        """The calls that it looks at."""
        return [
            (ReplicaFacts, "next_seq", self.next_numbers),
            (OrderingState, "apply", self.entries),
            (OrderClock, "lead", self._times.leads),
            (OrderClock, "recent", self._times.says),
            (OrderingState, "snapshot_pieces", self.sizes),
            (SessionTable, "expired", self.expiries),
            (SessionTable, "listed", self.lists),
            (Spares, "reported", self.additions),
        ]

    def accuse(self, rule: str, text: str) -> None:
        """The run ends with this step."""
        self._world.accuse(rule, text)

    def next_numbers(
        self, original: Callable[..., int], core: ReplicaFacts, lane: LaneId, producer_id: int, epoch: int
    ) -> int:
        """What a session is told to go on behind is ordered: else it may vanish, and nothing could follow."""
        number = original(core, lane, producer_id, epoch)
        last, ordered = core._appends.sessions.last_lsn(producer_id), core.ordered_length(lane) or 0
        if last >= ordered:
            said = f"producer {producer_id} is told to go on with number {number}"
            self.accuse("told-ordered", f"{said}, its last batch is at {last} of {lane}, and {ordered} are ordered")
        return number

    def entries(
        self, original: Callable[..., list[Outcome]], state: OrderingState, index: int, entry: OrderingEntry
    ) -> list[Outcome]:
        """What an entry may bring about, whoever proposed it."""
        if isinstance(entry, Cut):
            self._may_be_forgotten(state, entry.forget)
        before, former = state.size_bytes, _home_before(state, entry)
        outcomes = original(state, index, entry)
        self._times.applied(state, index, entry, outcomes)
        self._note_times(state, outcomes)
        self._has_room(state, before, entry)
        for outcome in outcomes:
            if isinstance(outcome, ExpiredSession):
                self._may_expire(entry, outcome)
            elif isinstance(outcome, RefusedEntry):
                self._may_be_refused(outcome)
            elif isinstance(outcome, SessionMoved | SessionOpened):
                self._may_be_home(state, outcome, former)
            elif isinstance(entry, Finalize) and isinstance(outcome, ViewChanged) and outcome.now is not None:
                if outcome.now.phase == "finalizing":
                    self._graces[outcome.shard] = (state.cut_number + entry.cuts, entry.until_us)
            elif isinstance(outcome, FinalizedShard) and isinstance(entry, Cut):
                self._is_over(state, outcome.shard)
        return outcomes

    def _note_times(self, state: OrderingState, outcomes: list[Outcome]) -> None:
        """When positions were ordered, which rise with time."""
        if (problem := self._world.ordered.add(state.tail, state.time_us, state.first)) is not None:
            self.accuse("order-time", problem)

    def expiries(self, original: Callable[..., None], table: SessionTable, producer_id: int) -> None:
        """A copy of a lane keeps nothing of a session that it is told has expired."""
        original(table, producer_id)
        if producer_id in table._by_id:
            self.accuse("names", f"a copy of a lane keeps producer {producer_id}, of which it is told that it expired")

    def lists(self, original: Callable[..., None], table: SessionTable, at_home: frozenset[int], lsn: int) -> None:
        """A copy of a lane keeps all that it knows of those that are at home there."""
        known = at_home & table._by_id.keys()
        original(table, at_home, lsn)
        if lost := sorted(known - table._by_id.keys()):
            self.accuse("names", f"a copy of a lane has forgotten producers {lost}, which are at home there")

    def additions(
        self, original: Callable[..., AddReplica | None], spares: "Spares[Any]", leader: CutProposer, report: Report
    ) -> AddReplica | None:
        """A learner is added once it has synced all that the leader knows to be ordered of its shard."""
        entry = original(spares, leader, report)
        if entry is None:
            return None
        hosts = [host for host in self._world.hosts.values() if host.is_up and host.address == entry.address.host]
        server = replica_of(hosts[0]) if hosts else None
        if server is not None and server.core._reporting._boot == report.boot:  # else it has started again since
            copies, settled = server.core._lanes, server.core._settled
            for lane, due in spares._state.lengths_due(entry.shard).items():
                has = copies[lane].durable if lane in copies else settled.length(lane) or 0
                if has < due:
                    said = f"{hosts[0].name} becomes a replica of shard {entry.shard}"
                    self.accuse("learned", f"{said} with {has} records of lane {lane}, of which {due} are ordered")
        return entry

    def sizes(self, original: Callable[..., Iterator[bytes]], state: OrderingState) -> Iterator[bytes]:
        """The state knows a bound on its snapshot, and Raft takes every snapshot that there can be."""
        return self._counted(original(state), state.size_bytes)

    def _counted(self, pieces: Iterator[bytes], most: int) -> Iterator[bytes]:
        size = 0
        for piece in pieces:
            size += len(piece)
            yield piece
        if size > most:
            self.accuse("state-size", f"a snapshot has {size} bytes, and the state says {most} at most")

    def _may_be_forgotten(self, state: OrderingState, cuts: tuple[int, ...]) -> None:
        """A cut is let go once f + 1 replicas of each of its shards have its positions on their disks."""
        for number in cuts:
            for shard in state.kept[number].shards if number in state.kept else []:
                known = state.shards.by_number.get(shard)
                copies = self._invariants.runs_synced(shard, number)
                if known is not None and copies < known.copies:
                    said = f"cut {number} is let go, and {copies} replicas of shard {shard} have its positions"
                    self.accuse("runs-kept", f"{said} on their disks, not {known.copies}")

    def _may_be_home(self, state: OrderingState, outcome: SessionMoved | SessionOpened, former: LaneId | None) -> None:
        """Nobody comes to a shard that is about to go; one who lives there may open the session again, and be told of
        its move again. Nobody leaves a lane that may still order something."""
        session = outcome.session
        is_new = session.home != former
        if is_new and not state.shards.is_live(session.home.shard):
            self.accuse("leaving", f"session {session.name!r} came to lane {session.home} of a shard that is not live")
        if isinstance(outcome, SessionMoved) and is_new and state.lanes.is_open(outcome.source):
            self.accuse("leaving", f"session {session.name!r} left lane {outcome.source}, which is open")

    def _has_room(self, state: OrderingState, before: int, entry: OrderingEntry) -> None:
        """Nobody gets something new beyond the limit of the state; plain appends have a reserve."""
        limits = self._world.configuration.limits
        most = limits.get("ORDERING_STATE_BYTES_MAX", ORDERING_STATE_BYTES_MAX)
        if isinstance(entry, OpenSession) and entry.name.startswith(ANONYMOUS):
            most += limits.get("ORDERING_STATE_RESERVE_BYTES", ORDERING_STATE_RESERVE_BYTES)
        after = state.size_bytes
        if isinstance(entry, OpenSession | OpenPart | RegisterShard) and after > max(before, most):
            said = f"{type(entry).__name__} took the state from {before} to {after} bytes"
            self.accuse("state-size", f"{said}, and {most} is the limit")

    def _may_expire(self, entry: OrderingEntry, outcome: ExpiredSession) -> None:
        """A session expires under the epoch that was meant; others make room only if they have no name."""
        session = outcome.session
        match entry:
            case ExpireSession(producer_id=producer_id, epoch=epoch):
                is_meant = (producer_id, epoch) == (session.producer_id, session.epoch)
            case ExpireIdle(sessions=sessions):
                is_meant = (session.producer_id, session.epoch) in sessions
            case _:
                is_meant = session.is_anonymous
        if not is_meant:
            self.accuse("names", f"session {session.name!r} of epoch {session.epoch} expired by {entry}")

    def _may_be_refused(self, outcome: RefusedEntry) -> None:
        """Only names are refused because names are taken."""
        entry = outcome.entry
        if (
            outcome.reason == "too many sessions"
            and isinstance(entry, OpenSession)
            and entry.name.startswith(ANONYMOUS)
        ):
            self.accuse("names", "a session without a name was refused, since all names are taken")

    def _is_over(self, state: OrderingState, shard: int) -> None:
        cut, until_us = self._graces.get(shard, (0, 0))
        if state.cut_number < cut or state.time_us < until_us:
            said = f"shard {shard} was finalized with cut {state.cut_number} at {state.time_us}"
            self.accuse("grace", f"{said}, and its grace lasts to cut {cut} and to {until_us}")


def _home_before(state: OrderingState, entry: OrderingEntry) -> LaneId | None:
    """Where the session lives that an entry opens or moves; None when there is no such session yet."""
    match entry:
        case MoveSession(producer_id=producer_id):
            known = state.sessions.by_id.get(producer_id)
        case OpenSession(name=name):
            known = state.sessions.find(name)
        case _:
            known = None
    return None if known is None else known.home
