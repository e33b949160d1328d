"""The replicas' news: what was agreed, sent to the shards that it concerns.

Each shard is told every cut and every change of the view, of whichever shard, since a replica must know how far
the order and the view have got even while nothing of its own happens; of lanes and sessions it is told its own.
A connection may carry several replicas, and then gets the news of all their shards in one message; that of an
aggregator, which passes them on by an object like this one, gets a cut as vectors instead of taken apart.
"""

from collections.abc import Iterator, Mapping, Sequence

from ithaca.engines.scalog.messages.aggregation import Assigned, CarriedNews, Left, OrderNews
from ithaca.engines.scalog.messages.reporting import News, ShardNews
from ithaca.engines.scalog.ordering.cut_slices import CutPart, shard_vector
from ithaca.engines.scalog.ordering.outcomes import (
    Configured,
    ConsumersTold,
    ExpiredSession,
    FinalizedShard,
    LaneClosed,
    LaneOpened,
    OrderedCut,
    Outcome,
    RangeLost,
    RefusedEntry,
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
    PartsUnfit,
    PublishConflicts,
)
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.model.cut import LaneRun, ShardCut, Vector
from ithaca.model.errors import Unavailable
from ithaca.model.limits import CUT_PART_NEWS_BYTES_MAX, FIRST_TOLD_LANES_MAX
from ithaca.model.view import Address
from ithaca.runtime.connection import Connection

_CUT_PART_COLUMNS = 4
_SharedNews = (
    LaneOpened
    | LaneClosed
    | RangeLost
    | FinalizedShard
    | PartOpened
    | PartSealed
    | PartDropped
    | SessionOpened
    | ExpiredSession
    | SessionMoved
)
"""What some shards are told, and how aggregators are."""


class NewsStreams:
    """The replicas that have joined here, and what is to be told to them."""

    def __init__(self) -> None:
        self._shards: dict[int, _ShardStream] = {}
        self._carriers: dict[Connection, _Carrier | _AggregatorCarrier] = {}
        self._aggregators: list[_AggregatorCarrier] = []
        self._direct: dict[int, tuple[_Carrier, ...]] = {}
        """Of each shard, the connections that get its cuts taken apart."""
        self._awaited: dict[_Carrier | _AggregatorCarrier, None] = {}
        """Those that appenders wait behind, as far as that is worth knowing: they are told first."""

    def __len__(self) -> int:
        return sum(len(carrier.replicas) for carrier in self._carriers.values())

    def join(self, connection: Connection, shard: int, replica: int) -> None:
        """Tell this replica all that is taken in from now on; an earlier connection of it ends."""
        former = self.connection(shard, replica)
        if former is not None and former is not connection:
            self._dismiss(former, shard, replica)
        carrier = self._carriers.get(connection)
        if carrier is None:
            carrier = self._carriers[connection] = _carrier(connection)
            if isinstance(carrier, _AggregatorCarrier):
                self._aggregators.append(carrier)
        carrier.flush()  # what came before is told before
        carrier.add(shard, replica)
        stream = self._shards.setdefault(shard, _ShardStream())
        stream.connections[replica] = connection
        self._choose_carriers(shard, stream)

    def leave(self, connection: Connection) -> list[tuple[int, int]]:
        """Nothing more is told over this connection; says which replicas it carried."""
        carrier = self._carriers.pop(connection, None)
        if carrier is None:
            return []
        self._awaited.pop(carrier, None)
        if isinstance(carrier, _AggregatorCarrier):
            self._aggregators.remove(carrier)
        for shard, replica in carrier.replicas:
            self._forget(shard, replica)
        return list(carrier.replicas)

    def leave_one(self, connection: Connection, shard: int, replica: int) -> None:
        """Nothing more is told to this replica over this connection, if it has joined over it."""
        if self.has_joined(connection, shard, replica):
            self._carriers[connection].remove(shard, replica)
            self._forget(shard, replica)

    def dismiss(self, shard: int, replica: int, to: Address | None = None) -> None:
        """Have a replica go to another server, or else leave, because it has joined elsewhere."""
        connection = self.connection(shard, replica)
        if connection is None:
            return
        if to is None:
            self._dismiss(connection, shard, replica)
        elif is_aggregator(connection):
            connection.send(Left(shard, replica, to))
        elif len(self._carriers[connection].replicas) == 1:
            connection.send(Assigned(to))

    def connection(self, shard: int, replica: int) -> Connection | None:
        """Over which connection this replica has joined."""
        stream = self._shards.get(shard)
        return None if stream is None else stream.connections.get(replica)

    def replicas(self) -> Iterator[tuple[int, int]]:
        """The shard and the number of everybody who has joined."""
        for carrier in self._carriers.values():
            yield from carrier.replicas

    def replicas_of(self, connection: Connection) -> list[tuple[int, int]]:
        """The replicas that have joined over this connection: their shards' numbers and their own."""
        carrier = self._carriers.get(connection)
        return [] if carrier is None else sorted(carrier.replicas)

    def has_joined(self, connection: Connection, shard: int, replica: int) -> bool:
        """Whether this replica has joined over this connection."""
        carrier = self._carriers.get(connection)
        return carrier is not None and (shard, replica) in carrier.replicas

    def stranger(self, connection: Connection, reports: Sequence[Report]) -> int | None:
        """The first of these reports whose replica has not joined over this connection; None if all have."""
        carrier = self._carriers.get(connection)
        joined = {} if carrier is None else carrier.replicas
        for place, report in enumerate(reports):
            if (report.shard, report.replica) not in joined:
                return place
        return None

    def has(self, shard: int, replica: int) -> bool:
        return self.connection(shard, replica) is not None

    def take(self, outcomes: list[Outcome]) -> None:
        """Take in what applying one entry did."""
        for outcome in outcomes:
            match outcome:
                case OrderedCut():
                    self._take_cut(outcome)
                case ViewChanged() | TrimmedLog():
                    for carrier in self._carriers.values():
                        carrier.items.append(outcome)
                case LaneOpened() | LaneClosed() | RangeLost() | PartSealed() | PartDropped():
                    self._tell(outcome, outcome.lane.shard)
                case PartOpened():
                    self._tell(outcome, outcome.part.lane.shard)
                case FinalizedShard():
                    self._tell(outcome, outcome.shard)
                case SessionOpened() | ExpiredSession():
                    self._tell(outcome, outcome.session.home.shard)
                case SessionMoved():
                    self._tell(outcome, outcome.session.home.shard, outcome.source.shard)
                case Configured() | RefusedEntry() | PartsPublished() | PublishConflicts() | PartsUnfit():
                    pass
                case ConsumersTold() | ConsumptionRefused() | UsersTold():
                    pass

    def flush(self) -> None:
        """Send what was taken in, as one message per connection; first to the owners of the lanes that were cut."""
        for carrier in (*self._awaited, *self._carriers.values()):
            carrier.flush()
        self._awaited.clear()

    def connections(self) -> Iterator[Connection]:
        """Those over which somebody has joined."""
        return iter(self._carriers)

    def close(self) -> None:
        """End every connection: whoever joined must look for another leader."""
        connections = list(self._carriers)
        for connection in connections:
            self.leave(connection)
        for connection in connections:
            connection.close()

    def _take_cut(self, cut: OrderedCut) -> None:
        for aggregator in self._aggregators:
            aggregator.take_cut(cut)
        if not self._direct:
            return
        runs = cut.runs_by_shard()
        if len(cut.keys) <= FIRST_TOLD_LANES_MAX:
            self._await_owners(runs)
        for shard, carriers in self._direct.items():
            part = ShardCut(shard, cut.number, cut.tail, cut.time_us, runs.get(shard, ()))
            for carrier in carriers:
                carrier.items.append(part)

    def _await_owners(self, runs: Mapping[int, Sequence[LaneRun]]) -> None:
        for shard, of_shard in runs.items():
            for run in of_shard:
                owner = self.connection(shard, run.lane.replica)
                if owner is not None:
                    self._awaited[self._carriers[owner]] = None

    def _tell(self, news: _SharedNews, *shards: int) -> None:
        """Tell it to every connection that carries a replica of one of these shards, once."""
        told: dict[Connection, None] = {}
        for shard in shards:
            if shard in self._shards:
                told.update(dict.fromkeys(self._shards[shard].connections.values()))
        for connection in told:
            self._carriers[connection].items.append(news)

    def _dismiss(self, connection: Connection, shard: int, replica: int) -> None:
        """A replica has joined elsewhere: end its connection, unless that is shared with others."""
        if is_aggregator(connection):
            self.leave_one(connection, shard, replica)
            connection.send(Left(shard, replica))
        else:
            self.leave(connection)
            connection.abort(Unavailable(f"replica {replica} of shard {shard} has joined again"))

    def _forget(self, shard: int, replica: int) -> None:
        stream = self._shards[shard]
        del stream.connections[replica]
        self._choose_carriers(shard, stream)

    def _choose_carriers(self, shard: int, stream: "_ShardStream") -> None:
        if not stream.connections:
            del self._shards[shard]
        found = (self._carriers.get(connection) for connection in dict.fromkeys(stream.connections.values()))
        direct = tuple(carrier for carrier in found if isinstance(carrier, _Carrier))
        if direct:
            self._direct[shard] = direct
        else:
            self._direct.pop(shard, None)


def is_aggregator(connection: Connection) -> bool:
    """Whether an aggregator has dialled, and not the replicas themselves."""
    return connection.hello is not None and connection.hello.role == "aggregator"


def _carrier(connection: Connection) -> "_Carrier | _AggregatorCarrier":
    return _AggregatorCarrier(connection) if is_aggregator(connection) else _Carrier(connection)


class _Carrier:
    """A connection, the replicas that have joined over it, and the news that wait for it."""

    __slots__ = ("connection", "items", "replicas")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.replicas: dict[tuple[int, int], None] = {}
        self.items: list[ShardNews] = []

    def add(self, shard: int, replica: int) -> None:
        self.replicas[shard, replica] = None

    def remove(self, shard: int, replica: int) -> None:
        del self.replicas[shard, replica]

    def flush(self) -> None:
        if self.items:
            news = News(tuple(self.items))
            self.items = []
            self.connection.send(news)


class _AggregatorCarrier:
    """The connection of an aggregator."""

    __slots__ = ("_shards", "_waiting_bytes", "connection", "items", "replicas")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.replicas: dict[tuple[int, int], None] = {}
        self.items: list[CarriedNews] = []
        self._shards: Vector | None = None
        self._waiting_bytes = 0

    def add(self, shard: int, replica: int) -> None:
        self.replicas[shard, replica] = None
        self._shards = None

    def remove(self, shard: int, replica: int) -> None:
        del self.replicas[shard, replica]
        self._shards = None

    def take_cut(self, cut: OrderedCut) -> None:
        """Have its shards' part of a cut sent, at once if there is much already."""
        if self._shards is None:
            self._shards = shard_vector({shard for shard, _ in self.replicas})
        part = CutPart.of(cut, self._shards)
        self.items.append(part)
        self._waiting_bytes += _CUT_PART_COLUMNS * len(part.keys)
        if self._waiting_bytes >= CUT_PART_NEWS_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        if self.items:
            news = OrderNews(tuple(self.items))
            self.items = []
            self._waiting_bytes = 0
            self.connection.send(news)


class _ShardStream:
    """The replicas of one shard that have joined, each with its connection."""

    __slots__ = ("connections",)

    def __init__(self) -> None:
        self.connections: dict[int, Connection] = {}
