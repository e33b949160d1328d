"""The order of the world: committed entries, a leader that changes, and links to the replicas that it talks to."""

from collections import deque

from tests.ordering.building import CONFIGURATION
from tests.replica.replica_truth import Truth
from tests.replica.simulated_client import SimulatedClient
from tests.replica.simulated_replica import LINK_LOST, SimulatedReplica

from ithaca.engines.scalog.ordering.entries import OpenLane, OrderingEntry
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.outcomes import (
    Configured,
    ConsumersTold,
    EngineOutcome,
    ExpiredSession,
    FinalizedShard,
    LaneClosed,
    LaneOpened,
    OrderedCut,
    Outcome,
    RangeLost,
    RefusedEntry,
    Session,
    SessionMoved,
    SessionOpened,
    TrimmedLog,
    UsersTold,
    ViewChanged,
)
from ithaca.engines.scalog.ordering.prepared.outcomes import (
    ConsumptionRefused,
    PartDropped,
    PartOpened,
    PartSealed,
    PartsPublished,
    PartsRenewed,
    PartsUnfit,
    PublishConflicts,
    WriterForgotten,
)
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.replica.events import OrderJoined


class Order(Truth):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.now_us = 1000
        self.leader = CutProposer(self.state)
        self.entries = 0
        self.flight: deque[OrderingEntry] = deque()
        self.reports: list[Report] = []
        self.clients: list[SimulatedClient] = []

    def deliver_report(self) -> None:
        if self.reports:
            report = self.reports[self.rng.randrange(len(self.reports))]
            self.leader.receive(report)
            if self.rng.random() < 0.9:
                self.reports.remove(report)

    def lose_report(self) -> None:
        self.reports = [report for report in self.reports if self.rng.random() < 0.5]

    def propose(self) -> None:
        cut = self.leader.propose(self.now_us, self.now_us)
        if cut is not None:
            self.send(cut)

    def commit(self) -> None:
        for _ in range(min(len(self.flight), self.rng.randint(1, 3))):
            self.apply(self.flight.popleft())

    def change_leader(self) -> None:
        """What was in flight commits up to some point; every link ends."""
        for _ in range(self.rng.randint(0, len(self.flight))):
            self.flight.pop()
        while self.flight:
            self.commit()
        self.leader = CutProposer(self.state)
        self.counts["leaders"] += 1
        for server in self.servers.values():
            server.is_joining = False
            self.cut_link(server)

    def cut_link(self, server: SimulatedReplica) -> None:
        """Some of what was on its way still arrives."""
        if server.link is not None:
            for _ in range(self.rng.randint(0, len(server.link))):
                server.link.pop()
            server.link.append(LINK_LOST)
            server.is_joining = False

    def send(self, entry: OrderingEntry) -> None:
        self.flight.append(entry)

    def apply(self, entry: OrderingEntry) -> None:
        self.entries += 1
        self.applying = entry
        outcomes = self.state.apply(self.entries, entry)
        for outcome in outcomes:
            self.counts[type(outcome).__name__] += 1
            self.take(outcome)
        self.leader.applied(outcomes, own=True)
        for server in self.servers.values():
            if server.link is not None and not (server.link and server.link[-1] is LINK_LOST):
                news = [news_of(outcome, server.shard) for outcome in outcomes]
                server.link += [item for item in news if item is not None]
        if isinstance(entry, OpenLane):
            self.welcome(entry, outcomes)

    def welcome(self, entry: OpenLane, outcomes: list[Outcome]) -> None:
        """Whoever asked to join is told where its shard stands; the news go on from here."""
        server = self.servers[entry.shard, entry.replica]
        summary = self.state.summary(entry.shard)
        if summary is None or not server.is_joining or server.boot != entry.boot or server.link is not None:
            return
        lane = next((outcome.lane for outcome in outcomes if isinstance(outcome, LaneOpened)), None)
        cuts = tuple(self.state.cuts_since(entry.shard, 0))
        server.link = deque([OrderJoined(CONFIGURATION.log, lane, summary, cuts)])

    def take(self, outcome: Outcome) -> None:
        match outcome:
            case OrderedCut():
                self.ordered(outcome)
            case LaneOpened(lane, boot):
                self.excuse(self.servers[lane.shard, lane.replica], boot)
                self.content.setdefault(lane, [])
                self.places.setdefault(lane, [])
            case TrimmedLog(_, lanes):
                self.forgotten |= set(lanes)
            case SessionOpened(session):
                for client in self.clients_of(session):
                    client.opened(session)
            case SessionMoved(session, _):
                for client in self.clients_of(session):
                    client.moved(session)
            case ExpiredSession(session):
                for client in self.clients_of(session):
                    client.expired()
            case _:
                pass

    def excuse(self, server: SimulatedReplica, boot: int) -> None:
        """A boot has begun: from the next proposal on, nothing counts that the replica has lost before."""
        lost = {lane: what for lane, what in server.lost.items() if what[1] < boot}
        if lost:
            self.excused += [(entry, server, lost) for entry in self.flight]
            server.lost = {lane: what for lane, what in server.lost.items() if lane not in lost}

    def clients_of(self, session: Session) -> list[SimulatedClient]:
        return [client for client in self.clients if client.name == session.name]


def news_of(outcome: Outcome, shard: int) -> object | None:
    """What of an outcome a replica of the shard is told."""
    match outcome:
        case OrderedCut():
            return outcome.of_shard(shard)
        case ViewChanged() | TrimmedLog():
            return outcome
        case LaneOpened(lane) | LaneClosed(lane) | RangeLost(lane) | PartSealed(lane) | PartDropped(lane):
            return outcome if lane.shard == shard else None
        case FinalizedShard(finalized):
            return outcome if finalized == shard else None
        case SessionOpened(session) | ExpiredSession(session):
            return outcome if session.home.shard == shard else None
        case SessionMoved(session, source):
            return outcome if shard in (session.home.shard, source.shard) else None
        case PartOpened(part):
            return outcome if part.lane.shard == shard else None
        case RefusedEntry() | Configured() | PartsPublished() | PublishConflicts() | PartsUnfit() | PartsRenewed():
            return None
        case WriterForgotten() | ConsumersTold() | UsersTold() | ConsumptionRefused() | EngineOutcome():
            return None
