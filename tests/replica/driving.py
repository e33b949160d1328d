"""One replica core beside a real ordering state: entries in, news to the core, effects kept."""

from typing import TypeVar

from tests.ordering.building import CONFIGURATION, Driver, shard_entry
from tests.replica.replica_order import news_of

from ithaca.engines.scalog.ordering.entries import OpenLane, OpenSession, OrderingEntry
from ithaca.engines.scalog.ordering.outcomes import Outcome, Session, SessionOpened
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.replica.events import (
    Appended,
    Created,
    CreateLane,
    Effect,
    Event,
    Held,
    OrderJoined,
    Replicated,
    Request,
    Synced,
)
from ithaca.model.cut import LaneRun
from ithaca.model.positions import LaneId
from ithaca.wire.batch import Batch, lane_seed
from ithaca.wire.build import build

E = TypeVar("E", bound=Effect)
SHARD, REPLICA = 0, 0


class Driven:
    """Replica 0 of shard 0; its peers are only entries of the order."""

    def __init__(self, *, f: int = 1, masking: bool = False, held: dict[LaneId, Held] | None = None) -> None:
        self.order = Driver()
        entry = shard_entry(SHARD, f=f, masking=masking)
        self.order.apply(entry)
        for replica, _ in entry.replicas[1:]:
            self.order.apply(OpenLane(SHARD, replica, 1))
        self.boot = 1
        self.start(held or {})

    def start(self, held: dict[LaneId, Held]) -> None:
        self.core = ReplicaCore(SHARD, REPLICA, self.boot, held)
        self.requests = 0

    def joined(self, *, creates: bool = True) -> list[Effect]:
        """Join, and make the lanes that are wanted."""
        self.order.apply(OpenLane(SHARD, REPLICA, self.boot))
        shard = self.order.state.shards.by_number[SHARD]
        own = shard.find(REPLICA)
        lane = LaneId(SHARD, REPLICA, own.incarnation) if own is not None and own.is_open else None
        summary = self.order.state.summary(SHARD)
        assert summary is not None
        cuts = tuple(self.order.state.cuts_since(SHARD, 0))
        effects = self.core.step(OrderJoined(CONFIGURATION.log, lane, summary, cuts))
        return effects + self.create(effects) if creates else effects

    def create(self, effects: list[Effect]) -> list[Effect]:
        return [more for each in only(CreateLane, effects) for more in self.core.step(Created(each.lane))]

    @property
    def own(self) -> LaneId:
        assert self.core.own_lane is not None
        return self.core.own_lane

    @property
    def peer(self) -> LaneId:
        return LaneId(SHARD, 1, 1)

    def apply(self, entry: OrderingEntry) -> list[Effect]:
        """Order an entry, and tell the core."""
        return self.tell(self.order.apply(entry))

    def tell(self, outcomes: list[Outcome]) -> list[Effect]:
        effects: list[Effect] = []
        for outcome in outcomes:
            news = news_of(outcome, SHARD)
            if news is not None:
                effects += self.core.step(news)  # type: ignore[arg-type]
        return effects

    def cut(self, lengths: dict[LaneId, int]) -> list[Effect]:
        return self.tell([self.order.cut(lengths)])

    def session(self, name: str = "s", lane: LaneId | None = None) -> Session:
        """Open a session, at home in the own lane unless told otherwise."""
        outcomes = self.order.apply(OpenSession(name, lane or self.own))
        self.tell(outcomes)
        assert isinstance(outcomes[0], SessionOpened)
        return outcomes[0].session

    def append(self, session: Session | None = None, first_seq: int = 1, count: int = 1) -> list[Effect]:
        producer = (0, 0, 0) if session is None else (session.producer_id, session.epoch, first_seq)
        batch = build([b"x"] * count, timestamp_us=0, producer=producer)
        self.requests += 1
        return self.core.step(Appended(Request("client", self.requests), self.own, batch))

    def written(self, count: int = 1) -> None:
        """Append and sync."""
        self.append(count=count)
        self.core.step(Synced(self.own, self.core.received(self.own)))

    def receive(self, lane: LaneId, base_lsn: int, count: int = 1) -> list[Effect]:
        return self.core.step(Replicated(lane, placed(lane, base_lsn, count)))

    def step(self, event: Event) -> list[Effect]:
        return self.core.step(event)


def placed(lane: LaneId, base_lsn: int, count: int) -> Batch:
    return build([b"y"] * count, timestamp_us=0).placed(base_lsn, lane_seed(lane))


def held(length: int, runs: tuple[tuple[int, int], ...] = ()) -> Held:
    """A lane with runs of (position, count), of which the first `length` records are there."""
    lsn, known = 0, []
    for position, count in runs:
        known.append(LaneRun(LaneId(SHARD, 1, 1), lsn, position, count))
        lsn += count
    missing = tuple(run for run in known if run.lsn + run.count > length)
    return Held(length, lsn, missing, known[-1].position + known[-1].count if known else 0)


def only(kind: type[E], effects: list[Effect]) -> list[E]:
    return [effect for effect in effects if isinstance(effect, kind)]


def one(kind: type[E], effects: list[Effect]) -> E:
    found = only(kind, effects)
    assert len(found) == 1, effects
    return found[0]


def joined(*, f: int = 1, masking: bool = False) -> Driven:
    driven = Driven(f=f, masking=masking)
    driven.joined()
    return driven


def behind_a_trim(*lengths: int, held_length: int = 0) -> tuple[Driven, list[LaneRun]]:
    """A replica that was away while its peer's lane was ordered up to each of these, and all but the last forgotten."""
    driven = Driven(masking=True)
    runs = [driven.order.cut({driven.peer: length}).of_shard(SHARD).runs[0] for length in lengths]
    for number in range(1, len(lengths)):
        driven.order.state.kept.pop(number)
    driven.start({driven.peer: held(held_length)})
    return driven, runs
