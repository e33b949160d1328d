"""What is said in this engine, with the number of the frame type of each message.

| type | message      | from → to          | answered by                    | payload   |
|------|--------------|--------------------|--------------------------------|-----------|
| 120  | Append       | client → leader    | Acks, or a Failure             | one batch |
| 121  | Acks         | leader → client    |                                |           |
| 122  | BeginSession | client → leader    | SessionIs                      |           |
| 123  | SessionIs    | back               |                                |           |
| 124  | EndSession   | client → leader    | LogIs                          |           |
| 125  | TrimBefore   | client → leader    | LogIs                          |           |
| 126  | GetLog       | client → leader    | LogIs                          |           |
| 127  | LogIs        | back               |                                |           |
| 128  | Read         | client → server    | Found or Behind                |           |
| 129  | Found        | back               |                                | one batch |
| 130  | Behind       | back               |                                |           |
| 131  | Subscribe    | client → server    | a stream of Deliver, Finished  |           |
| 132  | Deliver      | server → client    |                                | batches   |
| 133  | SeekTime     | client → leader    | PositionIs                     |           |
| 134  | PositionIs   | back               |                                |           |
| 135  | CopyLane     | follower → server  | LaneCopy                       |           |
| 136  | LaneCopy     | back               |                                | batches   |
| 137  | GetSessions  | client → leader    | SessionsAre                    |           |
| 138  | SessionsAre  | back               |                                |           |
| 139  | LocateLane   | client → server    | LaneLocation                   |           |
| 140  | LaneLocation | back               |                                |           |

What only the leader answers is answered with `Redirect` by others. Between servers Raft speaks (`protocol.members`):
an `AppendEntries` has the batches of its ranges as payload, one behind the other.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.limits import MACHINE_NAME_BYTES_MAX, READ_WAIT_MS_MAX, SESSION_NAME_BYTES_MAX
from ithaca.protocol.codec import always, register
from ithaca.protocol.fields import Counted, Natural
from ithaca.protocol.filters import Filter


class Append(msgspec.Struct, frozen=True, array_like=True):
    """Append the batch in the payload, which belongs to a session."""


class Acks(msgspec.Struct, frozen=True, array_like=True):
    """These requests' batches are agreed on: (correlation, position of the first record)."""

    items: tuple[tuple[Natural, Counted], ...]


class BeginSession(msgspec.Struct, frozen=True, array_like=True):
    """Open the session, fencing whoever had it open."""

    name: Annotated[str, Meta(min_length=1, max_length=SESSION_NAME_BYTES_MAX)]


class SessionIs(msgspec.Struct, frozen=True, array_like=True):
    producer_id: Counted
    epoch: Counted
    next_seq: Counted


class EndSession(msgspec.Struct, frozen=True, array_like=True):
    """Forget a session: under this epoch, or by its name alone whatever its epoch is."""

    name: str
    epoch: Natural = 0


class TrimBefore(msgspec.Struct, frozen=True, array_like=True):
    before: Counted


class GetLog(msgspec.Struct, frozen=True, array_like=True):
    """Linearizable."""


class LogIs(msgspec.Struct, frozen=True, array_like=True):
    """Where the log begins and ends."""

    first: Counted
    tail: Counted


class Read(msgspec.Struct, frozen=True, array_like=True):
    """One record. The server waits up to `wait_ms` until it knows that the position is agreed on."""

    position: Counted
    wait_ms: Annotated[int, Meta(ge=0, le=READ_WAIT_MS_MAX)] = 0


class Found(msgspec.Struct, frozen=True, array_like=True):
    """The first record of the batch in the payload is at `position`."""

    position: Counted


class Behind(msgspec.Struct, frozen=True, array_like=True):
    """What this server knows to be agreed on ends at `tail`, before the position: more may be."""

    tail: Counted


class Subscribe(msgspec.Struct, frozen=True, array_like=True):
    """Everything from a position on, for ever or up to `stop`. It is a connection of its own."""

    start: Counted
    stop: Counted | None = None
    where: Filter | None = None


class Delivered(msgspec.Struct, frozen=True, array_like=True):
    """One batch of the payload.

    Without `rows` it is the batch as stored: its first record is at `position`, and the records `[low, high)` are
    meant. With `rows` it was made of the matching records alone: these are their positions less `position`, as packed
    little-endian u32.
    """

    position: Counted
    low: Natural
    high: Natural
    rows: bytes | None = None


class Deliver(msgspec.Struct, frozen=True, array_like=True):
    """The batches in the payload, one after the other; below `up_to` there is nothing more."""

    items: tuple[Delivered, ...]
    up_to: Counted


class SeekTime(msgspec.Struct, frozen=True, array_like=True):
    """The first position whose record has this time or a later one; linearizable."""

    time_us: int


class PositionIs(msgspec.Struct, frozen=True, array_like=True):
    position: Counted


class CopyLane(msgspec.Struct, frozen=True, array_like=True):
    """The data log from an LSN on, up to `stop`, as much of it as goes into one answer."""

    lsn: Natural
    stop: Natural


class LaneCopy(msgspec.Struct, frozen=True, array_like=True):
    """Batches without gaps; no-ops stand for what was trimmed."""


class GetSessions(msgspec.Struct, frozen=True, array_like=True):
    """Those with names whose producers come after this one; linearizable."""

    after: Natural = 0


class SessionsAre(msgspec.Struct, frozen=True, array_like=True):
    """Producer, name and epoch of some, in the order of their producers; none at the end of the list."""

    items: tuple[tuple[Counted, str, Counted], ...]


class LocateLane(msgspec.Struct, frozen=True, array_like=True):
    """Where the data log lies, for a reader on this machine who wants the positions `[start, stop)`."""

    machine: Annotated[str, Meta(min_length=1, max_length=MACHINE_NAME_BYTES_MAX)]
    start: Counted
    stop: Counted


class LaneLocation(msgspec.Struct, frozen=True, array_like=True):
    """Its directory, with device and inode to know it by; what was asked for is agreed on, and there."""

    directory: str
    device: Natural
    inode: Natural


register(
    {
        120: Append,
        121: Acks,
        122: BeginSession,
        123: SessionIs,
        124: EndSession,
        125: TrimBefore,
        126: GetLog,
        127: LogIs,
        128: Read,
        129: Found,
        130: Behind,
        131: Subscribe,
        132: Deliver,
        133: SeekTime,
        134: PositionIs,
        135: CopyLane,
        136: LaneCopy,
        137: GetSessions,
        138: SessionsAre,
        139: LocateLane,
        140: LaneLocation,
    },
    for_servers=(CopyLane,),
    administrative={EndSession: always, TrimBefore: always},
)
