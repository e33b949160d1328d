"""The replicas' news: what was agreed, sent to the shards that it concerns.

Each shard is told every cut and every change of the view, of whichever shard, since a replica must know how far
the order and the view have got even while nothing of its own happens; of lanes and sessions it is told its own.
"""

from ithaca.model.errors import Unavailable
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
from ithaca.protocol.messages import News, ShardNews
from ithaca.runtime.connection import Connection


class NewsStreams:
    """The replicas that have joined this leader, and what is to be told to them."""

    def __init__(self) -> None:
        self._shards: dict[int, _ShardStream] = {}
        self._joined: dict[Connection, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._joined)

    def join(self, connection: Connection, shard: int, replica: int) -> None:
        """Tell this replica all that is taken in from now on; an earlier connection of it ends."""
        self.leave(connection)
        stream = self._shards.setdefault(shard, _ShardStream(shard))
        stream.flush()  # what came before is not for the newcomer
        former = stream.connections.get(replica)
        if former is not None:
            self.leave(former)
            former.abort(Unavailable(f"replica {replica} of shard {shard} has joined anew"))
            stream = self._shards.setdefault(shard, stream)
        stream.connections[replica] = connection
        self._joined[connection] = shard, replica

    def leave(self, connection: Connection) -> None:
        place = self._joined.pop(connection, None)
        if place is not None:
            shard, replica = place
            stream = self._shards[shard]
            del stream.connections[replica]
            if not stream.connections:
                del self._shards[shard]

    def who(self, connection: Connection) -> tuple[int, int] | None:
        """The shard and the replica that joined over this connection."""
        return self._joined.get(connection)

    def has(self, shard: int, replica: int) -> bool:
        return shard in self._shards and replica in self._shards[shard].connections

    def take(self, outcomes: list[Outcome]) -> None:
        """Take in what applying one entry did."""
        for outcome in outcomes:
            match outcome:
                case OrderedCut():
                    for stream in self._shards.values():
                        stream.items.append(outcome.of_shard(stream.shard))
                case ViewChanged() | TrimmedTo():
                    for stream in self._shards.values():
                        stream.items.append(outcome)
                case LaneOpened() | LaneClosed() | RangeLost():
                    self._tell(outcome, outcome.lane.shard)
                case ShardFinalized():
                    self._tell(outcome, outcome.shard)
                case SessionOpened() | SessionExpired():
                    self._tell(outcome, outcome.session.home.shard)
                case SessionMoved():
                    self._tell(outcome, *{outcome.session.home.shard, outcome.source.shard})
                case Configured() | Refused():
                    pass

    def flush(self) -> None:
        """Send what was taken in, as one message per replica."""
        for stream in list(self._shards.values()):
            stream.flush()

    def close(self) -> None:
        """End every connection: whoever joined must look for another leader."""
        joined, self._joined, self._shards = list(self._joined), {}, {}
        for connection in joined:
            connection.close()

    def _tell(self, news: ShardNews, *shards: int) -> None:
        for shard in shards:
            if shard in self._shards:
                self._shards[shard].items.append(news)


class _ShardStream:
    """The replicas of one shard that have joined, and the news that they all wait for."""

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.connections: dict[int, Connection] = {}
        self.items: list[ShardNews] = []

    def flush(self) -> None:
        if self.items:
            news = News(tuple(self.items))
            self.items = []
            for connection in list(self.connections.values()):
                connection.send(news)
