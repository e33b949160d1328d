"""What goes into `ReplicaCore.step`, and what comes out."""

from typing import NamedTuple
from uuid import UUID

from ithaca.engines.scalog.messages.reporting import ShardNews
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.ordering.state import ShardSummary
from ithaca.model.cut import LaneRun, ShardCut
from ithaca.model.errors import IthacaError
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.wire.batch import Batch


class Held(NamedTuple):
    """A lane as it was found on the disk when the replica started."""

    length: int
    """Records that are synced."""
    runs_end: int
    """The LSN up to which positions are known."""
    missing: tuple[LaneRun, ...]
    """The known runs that reach beyond `length`, in order."""
    end_position: int
    """The position after the last one that is known of this lane; 0 when there is none."""
    has_holes: bool = False
    """Whether there are no-ops in it, in the place of records that were lost or trimmed when it was copied."""


class Request(NamedTuple):
    """Who is to be answered: opaque to the core."""

    connection: object
    correlation: int


# Events.


class Tick(NamedTuple):
    """Time has passed, by a monotonic clock; at the latest at `ReplicaCore.deadline_us`.

    Other events bring no time: what is due some time after them counts from the next tick.
    """

    now_us: int


class OrderJoined(NamedTuple):
    """The leader has answered `Join`: where the shard stands, and the cuts that may not be known here."""

    log: UUID
    lane: LaneId | None
    summary: ShardSummary
    cuts: tuple[ShardCut, ...]


class ShardReclaimed(NamedTuple):
    """The shard was finalized and trimmed whole while this replica was away, as the leader says: nothing is left to
    join, and nothing is served any more. What is here is kept for people to delete."""


class StartedAgain(NamedTuple):
    """The lane of this boot was closed by the order while the link to it was down or just now: this is the next boot,
    as if the replica had been started again. It comes before the order is joined again."""

    boot: int


class ReplicaRemoved(NamedTuple):
    """The shard goes on without this replica, for good."""


class OrderLost(NamedTuple):
    """The connection to the leader has ended: nothing is reported until it is joined again."""


class Appended(NamedTuple):
    """A client wants this batch, which was checked, in this lane."""

    request: Request
    lane: LaneId
    batch: Batch


class PartAppended(NamedTuple):
    """A client wants this batch, which was checked, at this place of a part that it prepares."""

    request: Request
    lane: LaneId
    token: bytes
    lsn: int
    batch: Batch


class Replicated(NamedTuple):
    """A peer has sent the next batch of a lane, which was checked, placed as the lane's primary placed it."""

    lane: LaneId
    batch: Batch
    position: int = 0
    """That its place entry says; 0 without one."""


class Synced(NamedTuple):
    """The lane is synced up to this length."""

    lane: LaneId
    length: int


class Created(NamedTuple):
    """`CreateLane` is done."""

    lane: LaneId


class Truncated(NamedTuple):
    """`Truncate` is done."""

    lane: LaneId


class RunsFetched(NamedTuple):
    """`FetchRuns` has brought these, which were ordered at one time; more may follow.

    The first starts behind what was asked for when the peer has trimmed what is before. Even then it starts at
    a record that the peer knows to be trimmed, or is the first that is not: positions rise along a lane, so
    that whoever knows of the trim can tell that all that is before was trimmed too.
    """

    lane: LaneId
    runs: tuple[LaneRun, ...]
    time_us: int


class SourcesExhausted(NamedTuple):
    """`Fetch` has asked every peer some times, and none has sent more of the lane; it goes on asking."""

    lane: LaneId


class RunsSynced(NamedTuple):
    """`SyncRuns` is done: the runs of every cut up to this one are durable."""

    cut: int


class DiskFull(NamedTuple):
    """The disk has no space for what was to be written (it will be tried again), or has some again."""

    is_full: bool


Event = (
    Tick
    | OrderJoined
    | OrderLost
    | ShardReclaimed
    | ReplicaRemoved
    | StartedAgain
    | ShardNews  # whatever the leader streams is an event as it is
    | Appended
    | PartAppended
    | Replicated
    | Synced
    | Created
    | Truncated
    | RunsFetched
    | SourcesExhausted
    | RunsSynced
    | DiskFull
)


# Effects.


class CreateLane(NamedTuple):
    """Make an empty lane, durably: answered by `Created`."""

    lane: LaneId


class DropLane(NamedTuple):
    """Nothing of this lane is needed any more."""

    lane: LaneId


class Settle(NamedTuple):
    """The lane is closed, and here exactly as it was ordered, positions included: nothing of it changes any more.

    Said once in a boot. Those that are `settled` when the core starts are not said.
    """

    lane: LaneId


class Truncate(NamedTuple):
    """Cut the lane and its runs to this length, durably: answered by `Truncated`. Nothing is being written."""

    lane: LaneId
    length: int


class Follow(NamedTuple):
    """Get the lane's batches from its primary as it accepts them, from `ReplicaCore.received(lane)` on.

    The shell dials again and again, until `Unfollow`, asking `received` again each time; what comes is
    stepped as `Replicated`. Where the lane is followed or fetched already, this starts it again, a moment later.
    """

    lane: LaneId
    primary: Address


class Unfollow(NamedTuple):
    """Stop following the lane, or fetching it or its runs; `Follow`, `Fetch` or `FetchRuns` may come again.

    A part that was written here is not accepted any more, and whoever follows it gets the rest by fetching it.
    """

    lane: LaneId


class Fetch(NamedTuple):
    """Get the batches of a closed lane up to `stop`, from any of these, in the way of `Follow`.

    Ends by itself when `received(lane)` has reached `stop`. While no peer sends any more, the shell says so
    (`SourcesExhausted`), and goes on asking.
    """

    lane: LaneId
    stop: int
    peers: tuple[Address, ...]


class FetchRuns(NamedTuple):
    """Get the runs of `[start, stop)` of the lane from any of these: answered by `RunsFetched`, once or more.

    The shell goes on until `stop`, asking again and again. One for the same lane takes the place of the one
    before it, and `Unfollow` ends it. A peer that has trimmed these answers with the first run that it has.
    """

    lane: LaneId
    start: int
    stop: int
    peers: tuple[Address, ...]


class Write(NamedTuple):
    """Write the batch at its place, behind those before it: `Synced` follows when it is durable.

    A batch of the own lane goes to the peers that follow it as well, at the same time. Where records are lost or
    trimmed that a peer would have sent, a run of no-ops is written in their place.
    """

    lane: LaneId
    batch: Batch
    position: int = 0
    """Of its first record, to be written before it as an entry of its own; 0 for none."""


class ForgetSession(NamedTuple):
    """The session has expired: nobody will ask what the lane holds of it."""

    lane: LaneId
    producer_id: int


class ListSessions(NamedTuple):
    """These sessions were at home in the lane when it was ordered up to `length`: of what is below that, nobody will
    ask what it holds of others."""

    lane: LaneId
    producer_ids: frozenset[int]
    length: int


class NoteRuns(NamedTuple):
    """These runs, which continue what is known of their lanes, were ordered at this time. Durable later."""

    runs: tuple[LaneRun, ...]
    time_us: int


class SkipRuns(NamedTuple):
    """The lane's runs go on at this LSN: what is before was trimmed, and nobody knows its positions any more."""

    lane: LaneId
    lsn: int


class SyncRuns(NamedTuple):
    """Make all noted runs durable: answered by `RunsSynced(cut)`."""

    cut: int


class SendReport(NamedTuple):
    report: Report


class Acknowledge(NamedTuple):
    """The batch is durable and ordered, its first record at this position."""

    request: Request
    position: int


class AcknowledgeAt(NamedTuple):
    """The batch was appended before, at this LSN of the own lane, which is ordered: look up its position.

    If that was trimmed, and is not known any more, refuse with `appends.position_gone`.
    """

    request: Request
    lsn: int


class AnswerStaged(NamedTuple):
    """The part is synced here up to this length."""

    request: Request
    length: int


class Refuse(NamedTuple):
    request: Request
    error: IthacaError


class Advanced(NamedTuple):
    """Readers may go on: positions below `readable` are ordered, and those of this shard are on this disk."""

    tail: int
    readable: int
    first: int
    view: int


class Rejoin(NamedTuple):
    """The stream of news has a gap: join the order again."""

    reason: str


Effect = (
    CreateLane
    | DropLane
    | Settle
    | Truncate
    | Follow
    | Unfollow
    | Fetch
    | FetchRuns
    | Write
    | ForgetSession
    | ListSessions
    | NoteRuns
    | SkipRuns
    | SyncRuns
    | SendReport
    | Acknowledge
    | AcknowledgeAt
    | AnswerStaged
    | Refuse
    | Advanced
    | Rejoin
)
