"""The public interface, synchronous: what every engine fulfils. `interface_aio` is its awaited twin.

The conformance suite (`tests/conformance`) states the behaviour behind these signatures, and runs against
every engine.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from ithaca.model.interface_admin import Admin, OrdererInfo, ReplicaInfo, SessionInfo, ShardInfo, WriterInfo
from ithaca.model.interface_parts import PartWriter, PreparedAppends
from ithaca.model.limits import POLL_RECORDS_MAX
from ithaca.model.records import Buffer, KeyFilter, Receipt, Record, Start

__all__ = [
    "Admin",
    "Batch",
    "ClusterLog",
    "ClusterStatus",
    "Log",
    "OrdererInfo",
    "PartWriter",
    "Pending",
    "PreparedAppends",
    "Records",
    "ReplicaInfo",
    "Session",
    "SessionInfo",
    "ShardInfo",
    "ShardPolicy",
    "Subscription",
    "WriterInfo",
]

ShardPolicy = Literal["sticky", "round_robin", "key_hash", "nearest"] | Callable[[bytes | None, Sequence[int]], int]
"""Where a record goes: by the name of a policy, or by a function of its key and the numbers of the live shards."""


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


class Pending(ABC):
    """An append under way.

    >>> import ithaca
    >>> with ithaca.open("./events") as log:
    ...     pending = log.submit(b"hello")
    ...     pending.result().position
    1
    """

    @abstractmethod
    def result(self, timeout: float | None = None) -> Receipt:
        """Wait for the receipt; raises what the append raised, or `DeadlineExceeded`."""

    @abstractmethod
    def done(self) -> bool:
        """Whether `result` would return or raise at once."""

    @abstractmethod
    def add_done_callback(self, callback: Callable[["Pending"], object]) -> None:
        """Call `callback(self)` when done, from the thread that finished it, or at once if it is done."""


class Records(ABC, Iterator[Record]):
    """Records in the order of their positions; also a context manager.

    >>> import ithaca
    >>> with ithaca.open("./events") as log:
    ...     receipt = log.append_many([b"a", b"b"])
    ...     [record.value for record in log.read_range(1)]
    [b'a', b'b']
    """

    @property
    @abstractmethod
    def position(self) -> int:
        """Where the next record will be looked for: resume with `start=records.position`."""

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """The same records, a batch at a time; goes on where the iteration stands."""

    @abstractmethod
    def close(self) -> None:
        """Stop: an iteration waiting in another thread ends. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class Subscription(Records):
    """Records as they are appended, without end: iteration waits for the next.

    >>> import ithaca
    >>> with ithaca.open("./events") as log, log.subscribe(start="earliest") as subscription:
    ...     receipt = log.append(b"hello")
    ...     next(subscription).value, subscription.poll(timeout=0)
    (b'hello', [])
    """

    @abstractmethod
    def poll(self, timeout: float | None = 0, max_records: int = POLL_RECORDS_MAX) -> list[Record]:
        """Up to `max_records` records, waiting up to `timeout` seconds for the first (None: for ever).

        An empty list means that nothing arrived in time.
        """


class Session(ABC):
    """A named producer whose retries are recognised: same sequence number, same receipt.

    Numbers count records. The name, the number and the last receipts survive restarts; opening the name
    again fences this handle. A program that stores `next_seq` with its own progress, or derives numbers
    from its input, appends each record exactly once, whatever crashes.

    A cluster keeps a name until somebody has it expire, or until it was idle for as long as its file says. An embedded
    log keeps the 4,096 names that were used last. A name that is gone begins again, with number 1.

    >>> import ithaca
    >>> with ithaca.open("./events") as log:
    ...     session = log.session("importer")
    ...     first = session.append(b"row 1", seq=1)
    ...     session.append(b"row 1", seq=1) == first, session.next_seq
    (True, 2)
    """

    name: str

    @property
    @abstractmethod
    def next_seq(self) -> int:
        """The number that the next new record must have; 1 at first."""

    @abstractmethod
    def append(
        self, value: Buffer, *, key: Buffer | None = None, seq: int | None = None, timeout: float | None = None
    ) -> Receipt:
        """Append one record under `seq` (default: the next number)."""

    @abstractmethod
    def append_many(
        self,
        values: Iterable[Buffer],
        *,
        keys: Iterable[Buffer | None] | None = None,
        seq: int | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Append one atomic batch whose first record has the number `seq` (default: the next number)."""


class Log(PreparedAppends, ABC):
    """A totally ordered log of records. `ithaca.open` gives one; `close` is idempotent.

    >>> import ithaca
    >>> with ithaca.open("./events") as log:
    ...     receipt = log.append(b"hello", key=b"user-7")
    ...     log.read(receipt.position).value
    b'hello'
    """

    @abstractmethod
    def append(self, value: Buffer, *, key: Buffer | None = None, timeout: float | None = None) -> Receipt:
        """Append one record; returns once it is durable and ordered."""

    @abstractmethod
    def append_many(
        self,
        values: Iterable[Buffer],
        *,
        keys: Iterable[Buffer | None] | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Append one atomic batch with consecutive positions; `BatchTooLarge`, never split."""

    @abstractmethod
    def submit(self, value: Buffer, *, key: Buffer | None = None) -> Pending:
        """Append without waiting; blocks only while too many bytes are in flight."""

    @abstractmethod
    def submit_many(self, values: Iterable[Buffer], *, keys: Iterable[Buffer | None] | None = None) -> Pending:
        """`append_many` without waiting."""

    @abstractmethod
    def flush(self, *, timeout: float | None = None) -> None:
        """Wait for everything submitted before; raises the first failure since the last flush."""

    @abstractmethod
    def read(self, position: int, *, shard: int | None = None, wait: float = 0) -> Record:
        """The record at `position`; `NotWritten` unless it appears within `wait` seconds."""

    @abstractmethod
    def read_range(self, start: int, stop: int | None = None, *, where: KeyFilter | None = None) -> Records:
        """The records of `[start, stop)`, by default up to the tail at the time of the call."""

    @abstractmethod
    def subscribe(self, start: Start = "latest", *, where: KeyFilter | None = None) -> Subscription:
        """Records from `start` on, for ever: a position, "earliest", "latest" or an aware datetime."""

    @abstractmethod
    def first(self) -> int:
        """The first position that can be read; equal to `tail()` when there is none."""

    @abstractmethod
    def tail(self) -> int:
        """The next position to be written; 1 when nothing ever was."""

    @abstractmethod
    def trim(self, before: int) -> None:
        """Give up every record below `before`, for good."""

    @abstractmethod
    def session(self, name: str) -> Session:
        """Open the named exactly-once session, fencing whoever had it open."""

    @abstractmethod
    def close(self) -> None:
        """Flush, release everything; raises what failed. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class ClusterStatus(msgspec.Struct, frozen=True):
    """How a cluster is: whether everything works, what does not, and what every server says of itself.

    `servers` are the servers' own words as JSON objects; of one that cannot be reached they are its address, its
    role, the state "unreachable" and the error. `lanes` are (lane, durable length, ordered length).

    >>> ClusterStatus(healthy=False, problems=("shard 0 cannot order",), tail=7, first=1).problems
    ('shard 0 cannot order',)
    """

    healthy: bool
    problems: tuple[str, ...]
    tail: int
    first: int
    servers: tuple[dict[str, Any], ...] = ()
    lanes: tuple[tuple[str, int, int], ...] = ()
    warnings: tuple[str, ...] = ()
    """What will be wrong soon: limits of which most is used, and what to do about each."""


class ClusterLog(Log):
    """The log of a cluster. `ithaca.connect` gives one.

    >>> import ithaca
    >>> def copy(bootstrap: str, values: list[bytes]) -> int:
    ...     with ithaca.connect(bootstrap) as log:
    ...         return log.append_many(values).position
    """

    @property
    @abstractmethod
    def admin(self) -> Admin:
        """What changes the cluster: its shards."""

    @abstractmethod
    def append_to_shard(
        self, shard: int, value: Buffer, *, key: Buffer | None = None, timeout: float | None = None
    ) -> Receipt:
        """Append one record to this shard, whatever the policy says.

        `NoSuchShard`, or `ShardFinalized` when it takes no more. If that comes while the record is under way it goes
        to another shard, as the receipt says.
        """

    @abstractmethod
    def set_shard_policy(self, policy: ShardPolicy) -> None:
        """Where records go from now on."""

    @abstractmethod
    def status(self) -> ClusterStatus:
        """How the cluster is; every server is asked."""
