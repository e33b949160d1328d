"""What both twins of the interface give: batches, and what a cluster says of itself."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ithaca.model.records import Record
from ithaca.model.security.users import UserLimits
from ithaca.model.view import ShardPhase

ShardPolicy = Literal["sticky", "round_robin", "key_hash", "nearest"] | Callable[[bytes | None, Sequence[int]], int]
"""Where a record goes: by the name of a policy, or by a function of its key and the numbers of the live shards."""


Consumed = Mapping[Any, int]
"""Handles of named consumers (`Log.consumer`), each with the position below which everything was processed."""


class Batch(ABC):
    """Some consecutive or filtered records of the log, as vectors: what Arrow and Spark read.

    >>> import ithaca
    >>> with ithaca.open("./events") as log:
    ...     receipt = log.append_many([b"a", b"b"])
    ...     [len(batch) for batch in log.read_range(1).batches()]
    [2]
    """

    shard: int
    timestamp_us: int

    @abstractmethod
    def __len__(self) -> int: ...

    def __repr__(self) -> str:
        where = f" from position {self.first_position}" if len(self) else ""
        return f"<ithaca.Batch of {len(self)} records{where}, shard {self.shard}>"

    @property
    @abstractmethod
    def first_position(self) -> int:
        """The position of the first record."""

    @property
    @abstractmethod
    def raw_bytes(self) -> int:
        """About how many bytes the records have when they are decompressed."""

    @abstractmethod
    def since(self, position: int) -> "Batch":
        """The records at this position and behind it."""

    @abstractmethod
    def positions(self) -> "list[int]":
        """The position of each record."""

    @abstractmethod
    def records(self) -> list[Record]:
        """The records, decoded."""

    @abstractmethod
    def to_arrow(self) -> Any:
        """A `pyarrow.RecordBatch` with the columns position, shard, timestamp, key, value.

        Keys and values are not copied unless the batch was compressed or filtered.
        """


class ReplicaInfo(msgspec.Struct, frozen=True):
    """One storage server of a shard: its newest lane, whether that may grow, and how much of it is ordered.

    >>> ReplicaInfo(replica=0, address="127.0.0.1:7603", lane="0-0-1", is_open=True, ordered=7).address
    '127.0.0.1:7603'
    """

    replica: int
    address: str
    lane: str | None = None
    is_open: bool = False
    ordered: int = 0


class ShardInfo(msgspec.Struct, frozen=True):
    """One shard: its phase, how many of its replicas may be lost (`f`), and the records that are ordered in it.

    Of a shard that was trimmed, `records` counts those that its lanes still have, and those trimmed from them.

    >>> ShardInfo(shard=2, phase="finalized", f=1, masking=False, replicas=(), records=7).phase
    'finalized'
    """

    shard: int
    phase: ShardPhase
    f: int
    masking: bool
    replicas: tuple[ReplicaInfo, ...]
    records: int = 0


class MissingInfo(msgspec.Struct, frozen=True):
    """Ordered records that no replica has which answers: those of the LSNs `[start, stop)` of a lane.

    `silent` are the replicas of its shard that do not say what they have. Where there are none, only a disk that is not
    in use, or a backup, can have the records.

    >>> MissingInfo(lane="0-1-3", start=40, stop=100).stop
    100
    """

    lane: str
    start: int
    stop: int
    silent: tuple[int, ...] = ()


class OrdererInfo(msgspec.Struct, frozen=True):
    """One ordering server. It votes once it has kept up with the others; one of those that vote leads.

    >>> OrdererInfo(orderer=4, address="127.0.0.1:7607", votes=True, leads=False).votes
    True
    """

    orderer: int
    address: str
    votes: bool
    leads: bool


class UnitInfo(msgspec.Struct, frozen=True):
    """A storage unit: the set that it belongs to, its place in the chain of it (0 is written first), and what it says.

    `set` and `place` are None for a spare, and for one that only keeps what was written before. `ranges` counts the
    stretches of the log that it has rows of. `copied` is how far it is with what it lacks of one, from 0 to 1; None
    when it copies nothing.

    >>> UnitInfo(unit=3, address="127.0.0.1:7605", set=0, place=1, ranges=2, state="serving", rows=7).rows
    7
    """

    unit: int
    address: str
    set: int | None
    place: int | None
    ranges: int
    state: str
    rows: int | None
    copied: float | None = None


class UserInfo(msgspec.Struct, frozen=True):
    """A user of a cluster: its rights as they are written, how many tokens of it are valid, and its limits.

    >>> UserInfo("alice", ("read", "append:orders/"), 1).rights
    ('read', 'append:orders/')
    """

    name: str
    rights: tuple[str, ...]
    tokens: int
    limits: UserLimits = UserLimits()


class SessionInfo(msgspec.Struct, frozen=True):
    """A named session: how often it was opened, the lane in which it lives, and for how long nobody has used it.

    `idle_s` goes by the order's time, and is None when it is not known. What was appended counts once the leader has
    asked for it, which it does only of sessions that may be idle: an active one may seem idle for longer than it is.

    >>> SessionInfo(name="importer", epoch=2, lane="0-0-1", idle_s=3600.0).name
    'importer'
    """

    name: str
    epoch: int
    lane: str
    idle_s: float | None


class WriterInfo(msgspec.Struct, frozen=True):
    """A writer that is remembered, with what it published last: `count` records from `position` on, so long ago.

    >>> WriterInfo(writer="loader", key=7, owner="", position=11, count=2, idle_s=60.0).key
    7
    """

    writer: str
    key: int
    owner: str
    position: int
    count: int
    idle_s: float | None


class ClusterStatus(msgspec.Struct, frozen=True):
    """How a cluster is: whether everything works, what does not, and what every server says of itself.

    `servers` are the servers' own words as JSON objects; of one that cannot be reached they are its address, its
    role, the state "unreachable" and the error. `lanes` are (lane, durable length, ordered length).

    >>> ClusterStatus(healthy=False, problems=("shard 0 orders nothing",), tail=7, first=1).problems
    ('shard 0 orders nothing',)
    """

    healthy: bool
    problems: tuple[str, ...]
    tail: int
    first: int
    servers: tuple[dict[str, Any], ...] = ()
    lanes: tuple[tuple[str, int, int], ...] = ()
    warnings: tuple[str, ...] = ()
    """What will be wrong soon: limits of which most is used, and what to do about each."""
