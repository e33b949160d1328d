"""The replicas' news: what was agreed, sent to the shards that it concerns.

Each shard is told every cut and every change of the view, of whichever shard, since a replica must know how far
the order and the view have got even while nothing of its own happens; of lanes and sessions it is told its own.
A connection may carry several replicas, and then gets the news of all their shards in one message.
"""

from ithaca.model.cut import LaneRun, ShardCut, lane_of, shard_of
from ithaca.model.errors import Unavailable
from ithaca.model.view import Orderers
from ithaca.ordering.outcomes import (
    Configured,
    LaneClosed,
    LaneOpened,
    OrderedCut,
    Outcome,
    RangeLost,
    Refused,
    SessionExpired,
    SessionMoved,
    SessionOpened,
    ShardFinalized,
    TrimmedTo,
    ViewChanged,
)
from ithaca.ordering.part_outcomes import (
    PartDropped,
    PartOpened,
    PartSealed,
    PartsPublished,
    PartsUnfit,
    PublishConflicts,
)
from ithaca.protocol.messages import News, OrderersAre, ShardNews
from ithaca.runtime.connection import Connection


class NewsStreams:
    """The replicas that have joined this leader, and what is to be told to them."""

    def __init__(self) -> None:
        self._shards: dict[int, _ShardStream] = {}
        self._carriers: dict[Connection, _Carrier] = {}

    def __len__(self) -> int:
        return sum(len(carrier.replicas) for carrier in self._carriers.values())

    def join(self, connection: Connection, shard: int, replica: int) -> None:
        """Tell this replica all that is taken in from now on; an earlier connection of it ends."""
        stream = self._shards.setdefault(shard, _ShardStream())
        former = stream.connections.get(replica)
        if former is not None and former is not connection:
            self.leave(former)
            former.abort(Unavailable(f"replica {replica} of shard {shard} has joined anew"))
            stream = self._shards.setdefault(shard, stream)
        carrier = self._carriers.setdefault(connection, _Carrier(connection))
        carrier.flush()  # what came before is told before
        carrier.replicas.add((shard, replica))
        stream.connections[replica] = connection
        stream.carriers = self._carriers_of(stream)

    def leave(self, connection: Connection) -> None:
        """Nothing more is told over this connection."""
        carrier = self._carriers.pop(connection, None)
        if carrier is not None:
            for shard, replica in carrier.replicas:
                stream = self._shards[shard]
                del stream.connections[replica]
                stream.carriers = self._carriers_of(stream)
                if not stream.connections:
                    del self._shards[shard]

    def replicas_of(self, connection: Connection) -> list[tuple[int, int]]:
        """The replicas that have joined over this connection: their shards' numbers and their own."""
        carrier = self._carriers.get(connection)
        return [] if carrier is None else sorted(carrier.replicas)

    def has_joined(self, connection: Connection, shard: int, replica: int) -> bool:
        """Whether this replica has joined over this connection."""
        carrier = self._carriers.get(connection)
        return carrier is not None and (shard, replica) in carrier.replicas

    def has(self, shard: int, replica: int) -> bool:
        return shard in self._shards and replica in self._shards[shard].connections

    def take(self, outcomes: list[Outcome]) -> None:
        """Take in what applying one entry did."""
        for outcome in outcomes:
            match outcome:
                case OrderedCut():
                    self._take_cut(outcome)
                case ViewChanged() | TrimmedTo():
                    for carrier in self._carriers.values():
                        carrier.items.append(outcome)
                case LaneOpened() | LaneClosed() | RangeLost() | PartSealed() | PartDropped():
                    self._tell(outcome, outcome.lane.shard)
                case PartOpened():
                    self._tell(outcome, outcome.part.lane.shard)
                case ShardFinalized():
                    self._tell(outcome, outcome.shard)
                case SessionOpened() | SessionExpired():
                    self._tell(outcome, outcome.session.home.shard)
                case SessionMoved():
                    self._tell(outcome, *{outcome.session.home.shard, outcome.source.shard})
                case Configured() | Refused() | PartsPublished() | PublishConflicts() | PartsUnfit():
                    pass

    def flush(self) -> None:
        """Send what was taken in, as one message per connection."""
        for carrier in list(self._carriers.values()):
            carrier.flush()

    def tell_orderers(self, orderers: Orderers) -> None:
        for connection in self._carriers:
            connection.send(OrderersAre(orderers))

    def close(self) -> None:
        """End every connection: whoever joined must look for another leader."""
        carriers, self._carriers, self._shards = self._carriers, {}, {}
        for connection in carriers:
            connection.close()

    def _take_cut(self, cut: OrderedCut) -> None:
        runs = _runs_by_shard(cut)
        for shard, stream in self._shards.items():
            part = ShardCut(shard, cut.number, cut.tail, cut.time_us, tuple(runs.get(shard, ())))
            for carrier in stream.carriers:
                carrier.items.append(part)

    def _tell(self, news: ShardNews, *shards: int) -> None:
        for shard in shards:
            if shard in self._shards:
                for carrier in self._shards[shard].carriers:
                    carrier.items.append(news)

    def _carriers_of(self, stream: "_ShardStream") -> "tuple[_Carrier, ...]":
        connections = dict.fromkeys(stream.connections.values())
        return tuple(self._carriers[connection] for connection in connections if connection in self._carriers)


class _Carrier:
    """A connection, the replicas that have joined over it, and the news that wait for it."""

    __slots__ = ("connection", "items", "replicas")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.replicas: set[tuple[int, int]] = set()
        self.items: list[ShardNews] = []

    def flush(self) -> None:
        if self.items:
            news = News(tuple(self.items))
            self.items = []
            self.connection.send(news)


class _ShardStream:
    """The replicas of one shard that have joined, and whom its news go to: each connection once."""

    __slots__ = ("carriers", "connections")

    def __init__(self) -> None:
        self.connections: dict[int, Connection] = {}
        self.carriers: tuple[_Carrier, ...] = ()


def _runs_by_shard(cut: OrderedCut) -> dict[int, list[LaneRun]]:
    """The runs of a cut, taken apart in one go: there are many shards, and one cut is news for all of them."""
    runs: dict[int, list[LaneRun]] = {}
    columns = (cut.keys, cut.lsns, cut.positions, cut.counts)
    for key, lsn, position, count in zip(*(column.tolist() for column in columns), strict=True):
        runs.setdefault(shard_of(key), []).append(LaneRun(lane_of(key), lsn, position, count))
    return runs
