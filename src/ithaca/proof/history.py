"""A history: what the clients of a run asked and were told, what replicas held at its end, which faults fired.

One JSON object per line, told apart by its field `k`; the other fields are those of the structs below. Times
are whole numbers (nanoseconds) of one monotonic clock, the same for every process that writes into one
history. The order of lines matters only inside one subscription, and those come from one process: so
every process writes a file of its own, and `merge` puts them together.

An append whose process may be killed under it is logged twice: as `info` when it is called (and flushed), and with
its outcome when that is known. Lines of the same id are attempts at the same append.
"""

from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from typing import Annotated, BinaryIO, Literal, Self

import msgspec

Session = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 40)]
Count = Annotated[int, msgspec.Meta(ge=1, lt=1 << 24)]
Position = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Time = Annotated[int, msgspec.Meta(ge=-(1 << 62), lt=1 << 62)]
TimeUs = Annotated[int, msgspec.Meta(ge=-(1 << 62), lt=1 << 62)]
Shard = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]

SubId = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]

Id = tuple[Session, Number]
"""Which record: the session that appended it, and its number there. In the payload of the record itself."""

Outcome = Literal["ok", "fail", "info"]
"""Done; certainly not done, now and later; unknown."""

Key = str | None | msgspec.UnsetType
"""The key of a record, None when it has none; unset when it was not told."""

Hole = Literal["noop", "junk", "lost", "empty"]
"""What a position holds instead of a record of a client; an empty one holds nothing and never will."""

LATER_US = 1 << 61
"""The upper bound of a time that is still to come."""

READ_BYTES = 1 << 20
"""How much of a file is decoded at once."""


class BadHistory(ValueError):
    """A file that is no history; says which line, and why."""


class Plan(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="plan"):
    """What the run set out to do; without it nothing is asked of copies, successes and faults.

    `copies`: how many replicas hold each record at the end. `ok_min`: how many appends (lines, not records)
    succeed at least. `faults`: how often a fault fires at least, by the first word of its `what`. `clock_us`: between
    which two numbers the time of the order, in microseconds since 1970, is ahead of the clock of the history. `dense`:
    whether every position below the tail holds, or held, a record.
    """

    copies: int = 1
    ok_min: int = 0
    faults: dict[str, int] = {}
    clock_us: tuple[TimeUs, TimeUs] | msgspec.UnsetType = msgspec.UNSET
    dense: bool = True


class Append(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="append"):
    """A batch: records `id`, and the `n - 1` numbers behind it, at `pos` and the positions behind it.

    `pos` is a list of `n` where the engine does not promise contiguity, and None unless `st` is `ok`. `shard` is the
    receipt's. `ts` bounds the producer's time of day while it made the batch, in microseconds, both included.
    """

    id: Id
    n: Count
    inv: Time
    ret: Time
    st: Outcome
    pos: Position | tuple[Position, ...] | None = None
    key: str | None = None
    shard: Shard | msgspec.UnsetType = msgspec.UNSET
    ts: tuple[TimeUs, TimeUs] | msgspec.UnsetType = msgspec.UNSET


class Publish(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="publish"):
    """A set of parts (session, first number, count) that is published whole, in this order, from `pos` on.

    `shards` has the shard of each part, where it is certain that these very parts were published.
    """

    key: str
    parts: tuple[tuple[Session, Number, Count], ...]
    inv: Time
    ret: Time
    st: Outcome
    pos: Position | None = None
    shards: tuple[Shard, ...] | msgspec.UnsetType = msgspec.UNSET


class Read(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="read"):
    """A read of one position: the record's id, None (not written yet), a hole, or that it is trimmed."""

    pos: Position
    inv: Time
    ret: Time
    id: Id | Hole | Literal["trimmed"] | None
    key: Key = msgspec.UNSET
    ts: TimeUs | msgspec.UnsetType = msgspec.UNSET
    shard: Shard | msgspec.UnsetType = msgspec.UNSET


class Tail(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="tail"):
    """The next position to be written, as a client was told."""

    inv: Time
    ret: Time
    n: Position


class Trim(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="trim"):
    """Positions below `before` were given up, or may have been; not logged only if it certainly was refused.

    `ret` is None when nobody heard that it was done. A caller that may be killed writes such a line when it calls, and
    another when it knows more. `seen` is false where some replica may not have heard of it when it returned, because
    it was cut off: such a one still answers reads of single positions.
    """

    inv: Time
    ret: Time | None
    before: Position
    seen: bool | msgspec.UnsetType = msgspec.UNSET


class First(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="first"):
    """The first position that can be read, as a client was told."""

    inv: Time
    ret: Time
    n: Position


class Sub(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="sub"):
    """A subscription from `start` on, by a number that no other of the history has.

    `filter` is None, `key=` and the key that records must have, `prefix=` and what their keys begin with, `hash=`
    and two numbers with a colon between them, that the hashes of their keys are at least and below, or `part=` and a
    part of a group, how many it has, and perhaps a prefix, with colons between. It was opened between `inv` and `ret`;
    `at` is the time, in microseconds since 1970, that it was to begin with, when that was asked for.
    """

    sub: SubId
    start: Position
    filter: str | None = None
    inv: Time | msgspec.UnsetType = msgspec.UNSET
    ret: Time | msgspec.UnsetType = msgspec.UNSET
    at: TimeUs | msgspec.UnsetType = msgspec.UNSET


class Deliver(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="deliver"):
    """A subscription passed on a record as confirmed."""

    sub: SubId
    ret: Time
    pos: Position
    id: Id
    key: Key = msgspec.UNSET
    ts: TimeUs | msgspec.UnsetType = msgspec.UNSET
    shard: Shard | msgspec.UnsetType = msgspec.UNSET


class Mark(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="mark"):
    """A subscription says that it has passed on everything below `up_to` that it ever will."""

    sub: SubId
    t: Time
    up_to: Position


class Own(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="own"):
    """A handle of the consumer `con` has opened one of its parts, which stood at `pos`; its epoch is `ep`.

    What it hands out of that part is the subscription `sub`. With `out`, each record that it takes is written once,
    together with the commit: as the record of that session whose number is the position of the one that was taken.
    """

    con: str
    part: Number
    ep: Number
    pos: Position
    sub: SubId
    inv: Time
    ret: Time
    out: Session | msgspec.UnsetType = msgspec.UNSET


class Hand(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="hand"):
    """A call handed out records of the opening that has this subscription."""

    sub: SubId
    inv: Time
    ret: Time


class Commit(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="commit"):
    """Everything below `pos` was processed, under the opening that has this subscription.

    A caller writes such a line with `info`, flushed, when it calls, and another when it knows more.
    """

    sub: SubId
    pos: Position
    inv: Time
    ret: Time
    st: Outcome


class Range(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="range"):
    """The records of `[start, stop)` that a filter selects (see `Sub`), read to the end of the range.

    `keys`, `ts` and `shards` are those of the records, in the same order, where they were told.
    """

    inv: Time
    ret: Time
    start: Position
    stop: Position
    filter: str | None = None
    ids: tuple[tuple[Position, Id], ...] = ()
    keys: tuple[str | None, ...] | msgspec.UnsetType = msgspec.UNSET
    ts: tuple[TimeUs, ...] | msgspec.UnsetType = msgspec.UNSET
    shards: tuple[Shard, ...] | msgspec.UnsetType = msgspec.UNSET


class Spec(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="spec"):
    """A subscription passed on a record as speculative, in its attempt `att`."""

    sub: SubId
    t: Time
    pos: Position
    id: Id
    att: int


class Confirm(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="confirm"):
    """What the attempt `att` delivered at the positions `lo` to `hi`, both included, is final."""

    sub: SubId
    t: Time
    lo: Position
    hi: Position
    att: int


class Fail(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="fail"):
    """What the attempt `att` delivered from `lo` on was wrong."""

    sub: SubId
    t: Time
    lo: Position
    att: int


class Final(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="final"):
    """What a replica holds after everything came to rest: runs of positions from their first one on."""

    node: str
    runs: tuple[tuple[Position, tuple[Id | Hole, ...]], ...]


class Fault(msgspec.Struct, frozen=True, gc=False, tag_field="k", tag="fault"):
    """Something was broken on purpose; the first word of `what` is its kind."""

    t: Time
    what: str


AnyEvent = (
    Plan
    | Append
    | Publish
    | Read
    | Tail
    | Trim
    | First
    | Sub
    | Deliver
    | Mark
    | Own
    | Hand
    | Commit
    | Range
    | Spec
    | Confirm
    | Fail
    | Final
    | Fault
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def encode(event: AnyEvent) -> bytes:
    r"""One line, with its newline.

    >>> encode(Tail(inv=3, ret=5, n=7))
    b'{"k":"tail","inv":3,"ret":5,"n":7}\n'
    """
    return _encoder.encode(event) + b"\n"


def decode(line: bytes) -> AnyEvent:
    """The event of one line, with or without its newline.

    >>> decode(b'{"k":"fault","t":9,"what":"kill replica 0/1"}')
    Fault(t=9, what='kill replica 0/1')
    """
    try:
        return _decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise BadHistory(str(error)) from error


def read_chunks(
    path: str | PathLike[str], advance: Callable[[int], object] = lambda count: None
) -> Iterator[list[AnyEvent]]:
    """The events of a file, many at a time; `advance` is told the bytes that were read."""
    number = 0
    with open(path, "rb") as file:
        while lines := file.readlines(READ_BYTES):
            chunk = b"".join(lines)
            try:
                yield _decoder.decode_lines(chunk)
            except msgspec.MsgspecError:
                raise _first_bad(path, number, lines) from None
            number += len(lines)
            advance(len(chunk))


def read_history(path: str | PathLike[str]) -> Iterator[AnyEvent]:
    """The events of a file, in its order; `BadHistory` names the file and the line that is none."""
    for events in read_chunks(path):
        yield from events


class HistoryWriter:
    """Adds events to the end of a file. Buffered: what must survive its process is flushed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with HistoryWriter(f"{directory}/history") as writer:
    ...         writer.write(Tail(inv=3, ret=5, n=7))
    ...     list(read_history(f"{directory}/history"))
    [Tail(inv=3, ret=5, n=7)]
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._file: BinaryIO = open(path, "ab")  # noqa: SIM115 (closed by `close`)

    def write(self, event: AnyEvent) -> None:
        """Add one event."""
        self._file.write(encode(event))

    def flush(self) -> None:
        """Hand everything to the operating system: it is in the file even if this process is killed."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close; more than once is fine."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def merge(paths: Iterable[str | PathLike[str]], target: str | PathLike[str]) -> int:
    """Write the histories one after the other into a new file; returns how many torn lines were left out.

    A torn line is a last one without its newline: its process was killed while it wrote it. An append whose
    outcome is lost that way is still known from the `info` line before it.
    """
    torn = 0
    with open(target, "wb") as out:
        for path in paths:
            with open(path, "rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        out.write(line)
                    else:
                        torn += 1
    return torn


def _first_bad(path: str | PathLike[str], before: int, lines: list[bytes]) -> BadHistory:
    for number, line in enumerate(lines, before + 1):
        try:
            _decoder.decode(line)
        except msgspec.MsgspecError as error:
            return BadHistory(f"{path}, line {number}: {error}")
    raise AssertionError("lines that decode one by one must decode together")
