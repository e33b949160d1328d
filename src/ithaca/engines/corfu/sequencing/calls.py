"""What units, the sequencer and the Raft group are asked, and what they answer.

Every call to a unit or a sequencer names the epoch of whoever asks, and is refused with `EpochIs` under another one.
Structs that carry no batch are messages as they are.
"""

from dataclasses import dataclass, field
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from ithaca.engines.corfu.sequencing.entries import Entry
from ithaca.engines.corfu.sequencing.limits import (
    AWAIT_MS_MAX,
    LOCATED_ROWS_MAX,
    MISSING_ROWS_MAX,
    STRETCH_BYTES_MAX,
    TOKENS_MAX,
    UNIT_TRIMS_MAX,
    UNITS_MAX,
)
from ithaca.engines.corfu.sequencing.placed import PlacedBatch
from ithaca.engines.corfu.sequencing.projection import Natural, Projection, RowNumber
from ithaca.model.limits import MACHINE_NAME_BYTES_MAX
from ithaca.model.view import Address

Step = Annotated[int, Meta(ge=1, le=UNITS_MAX)]
"""From a row of a set to the next one: as many as there are sets."""


class Call(msgspec.Struct, frozen=True, array_like=True):
    """Asks for something; the answer is one of the structs below."""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """Of a unit, a sequencer or Raft."""


# Units


@dataclass(frozen=True, slots=True)
class Write:
    """Put this into a row, unless something is there."""

    epoch: int
    row: int
    entry: Entry


class Read(Call, frozen=True, array_like=True):
    epoch: Natural
    row: RowNumber


class AwaitRow(Call, frozen=True, array_like=True):
    """The same, and nothing is answered for so long unless something is there, or the epoch ends."""

    epoch: Natural
    row: RowNumber
    wait_ms: Annotated[int, Meta(ge=0, le=AWAIT_MS_MAX)]


class ReadRows(Call, frozen=True, array_like=True):
    """The rows `start`, `start + step` … below `stop`, up to the first that was neither written nor trimmed.

    So many of them as have about this many bytes, and the first batch in any case.
    """

    epoch: Natural
    start: RowNumber
    stop: RowNumber
    step: Step
    bytes_max: Annotated[int, Meta(ge=1, le=STRETCH_BYTES_MAX)]


class Seal(Call, frozen=True, array_like=True):
    """Accept nothing more of this epoch, nor of earlier ones. The unit must be the one that the projection means."""

    epoch: Natural
    identity: UUID


class Install(Call, frozen=True, array_like=True):
    """Raft has decided on this epoch: accept calls of it. The unit must be the one that the projection means."""

    epoch: Natural
    identity: UUID


class TrimRows(Call, frozen=True, array_like=True):
    """The rows `[low, high)` go; what was not written there never will be.

    Of the whole log everything before a position goes: then `low` is 0, and `high` the row that has it.
    """

    epoch: Natural
    low: RowNumber
    high: RowNumber
    before: Natural = 0
    """That position; 0 where single rows go."""


class ListMissing(Call, frozen=True, array_like=True):
    """Of the rows `start`, `start + step` … below `stop`, those that were neither written nor trimmed."""

    epoch: Natural
    start: RowNumber
    stop: RowNumber
    step: Step


class LocateRows(Call, frozen=True, array_like=True):
    """Where the rows `start`, `start + step` … below `stop` lie on the unit's disk, for a reader on this machine."""

    epoch: Natural
    machine: Annotated[str, Meta(min_length=1, max_length=MACHINE_NAME_BYTES_MAX)]
    start: RowNumber
    stop: RowNumber
    step: Step


class GetSessionTail(Call, frozen=True, array_like=True):
    """The last batches of a session."""

    epoch: Natural
    producer: Natural


class GetHighest(Call, frozen=True, array_like=True):
    """The highest row that was ever written, durably; for those who have no sequencer to ask."""

    epoch: Natural


class GetTrims(Call, frozen=True, array_like=True):
    """Everything that was trimmed, durably, and the last batches of all sessions; answered by a sealed unit too."""


class TakeTrims(Call, frozen=True, array_like=True):
    """Count as trimmed what another unit has trimmed, and remember its sessions; for a unit that is sealed alone.

    So nobody but whoever has sealed it copies, and no trim comes between that and the next epoch.
    """

    epoch: Natural
    below: RowNumber
    ranges: Annotated[tuple[tuple[RowNumber, RowNumber], ...], Meta(max_length=UNIT_TRIMS_MAX)]
    first: Natural
    placed: tuple[tuple[Natural, tuple[PlacedBatch, ...]], ...] = ()
    is_forgetful: bool = False


UnitCall = (
    Write
    | Read
    | AwaitRow
    | ReadRows
    | Seal
    | Install
    | TrimRows
    | ListMissing
    | LocateRows
    | GetSessionTail
    | GetHighest
    | GetTrims
    | TakeTrims
)


class RowWritten(Answer, frozen=True, array_like=True):
    """The call has put it there, durably."""


@dataclass(frozen=True, slots=True)
class RowHolds:
    """This is in the row, durably: what was to be written, or something else."""

    entry: Entry
    first: int = field(default=0, compare=False)
    """Everything before this position was trimmed, as far as the unit knows."""
    highest: int = field(default=-1, compare=False)
    """The highest row that was ever written there, durably: it and all before it were taken."""


@dataclass(frozen=True, slots=True)
class RowsHold:
    """What is in these rows, durably, ascending. All others that were asked for below `up_to` were trimmed."""

    up_to: int
    rows: tuple[tuple[int, Entry], ...]
    first: int = field(default=0, compare=False)
    """Everything before this position was trimmed, as far as the unit knows."""
    highest: int = field(default=-1, compare=False)
    """The highest row that was ever written there, durably: it and all before it were taken."""


class RowUnwritten(Answer, frozen=True, array_like=True):
    """Nothing is there yet."""


class RowTrimmed(Answer, frozen=True, array_like=True):
    """Whatever was there, it is gone; what was not written counts as junk."""

    first: Natural = 0
    """Everything before this position was trimmed, as far as the unit knows."""


class EpochIs(Answer, frozen=True, array_like=True):
    """The call was refused: this is the epoch here."""

    epoch: Natural
    is_sealed: bool


class UnitSealed(Answer, frozen=True, array_like=True):
    """Sealed, durably, with all that was accepted before."""

    epoch: Natural
    highest: Annotated[int, Meta(ge=-1)]
    """The highest row that was ever written; -1 for none."""
    time_us: int


class UnitInstalled(Answer, frozen=True, array_like=True):
    pass


class OtherIdentity(Answer, frozen=True, array_like=True):
    """This is not the unit that the projection means: it has lost its disk, or was set up again."""

    identity: UUID


class RowsTrimmed(Answer, frozen=True, array_like=True):
    pass


class MissingRows(Answer, frozen=True, array_like=True):
    rows: Annotated[tuple[RowNumber, ...], Meta(max_length=MISSING_ROWS_MAX)]
    next: RowNumber
    """Where to go on; the `stop` of the call when this is all."""


class RowLocations(Answer, frozen=True, array_like=True):
    """Where rows lie in the unit's lane. Of those that were asked for it has all below `up_to`, but for trimmed ones.

    Only a reader on its machine is told of rows, and of the lane's directory, with device and inode to know it by.
    """

    up_to: RowNumber
    first: Natural
    """Everything before this position was trimmed, as far as the unit knows."""
    directory: str = ""
    device: Natural = 0
    inode: Natural = 0
    rows: Annotated[tuple[RowNumber, ...], Meta(max_length=LOCATED_ROWS_MAX)] = ()
    lsns: Annotated[tuple[Natural, ...], Meta(max_length=LOCATED_ROWS_MAX)] = ()


class SessionTailReply(Answer, frozen=True, array_like=True):
    batches: tuple[PlacedBatch, ...]
    is_forgetful: bool = False


class HighestIs(Answer, frozen=True, array_like=True):
    row: Annotated[int, Meta(ge=-1)]
    time_us: int
    """No row of the unit has a later one."""


class TrimsAre(Answer, frozen=True, array_like=True):
    below: RowNumber
    ranges: Annotated[tuple[tuple[RowNumber, RowNumber], ...], Meta(max_length=UNIT_TRIMS_MAX)]
    first: Natural = 0
    placed: tuple[tuple[Natural, tuple[PlacedBatch, ...]], ...] = ()
    is_forgetful: bool = False


class CallRefused(Answer, frozen=True, array_like=True):
    """A bound was reached; nothing was done, and the same may work later."""

    reason: str


UnitAnswer = (
    RowWritten
    | RowHolds
    | RowsHold
    | RowUnwritten
    | RowTrimmed
    | EpochIs
    | UnitSealed
    | UnitInstalled
    | OtherIdentity
    | RowsTrimmed
    | MissingRows
    | RowLocations
    | SessionTailReply
    | HighestIs
    | TrimsAre
    | CallRefused
)

# The sequencer


class Want(msgspec.Struct, frozen=True, array_like=True):
    """A row for the next batch of a session, behind `after`: the last row of it that is settled, -1 for none."""

    producer: Natural
    session_epoch: Natural
    after: Annotated[int, Meta(ge=-1)]


class TakeTokens(Call, frozen=True, array_like=True):
    """A row for each of these sessions."""

    epoch: Natural
    wants: Annotated[tuple[Want, ...], Meta(min_length=1, max_length=TOKENS_MAX)]


class TakeRow(Call, frozen=True, array_like=True):
    """This very row, for whoever brings his own order: nobody's session gets it any more, nor one before it.

    Answered by a token, which says -1 where the row is a session's, or by the tail if the row is too far beyond it.
    """

    epoch: Natural
    row: RowNumber


class Fence(Call, frozen=True, array_like=True):
    """Give no row to handles of the session that are older than this."""

    epoch: Natural
    producer: Natural
    session_epoch: Natural


class GetTail(Call, frozen=True, array_like=True):
    epoch: Natural


SequencerCall = TakeTokens | TakeRow | Fence | GetTail


class Token(msgspec.Struct, frozen=True, array_like=True):
    """A row of one's own; -1: the session was opened again, and this handle gets none."""

    row: Annotated[int, Meta(ge=-1)]
    time_us: int


class Tokens(Answer, frozen=True, array_like=True):
    """In the order of the wants."""

    tokens: tuple[Token, ...]


class SessionFence(Answer, frozen=True, array_like=True):
    """From now on older handles get nothing."""

    open_row: Annotated[int, Meta(ge=-1)]
    """The last row that the session got, which may be unsettled; -1 for none in this epoch."""
    is_forgotten: bool = False
    """Whether there may have been one that is not remembered: then only a new epoch fences."""


class TailReply(Answer, frozen=True, array_like=True):
    """The row that is given next."""

    row: RowNumber


class NotReady(Answer, frozen=True, array_like=True):
    """What precedes this epoch is not settled yet, or the bound is being raised: ask again."""


SequencerAnswer = Tokens | SessionFence | TailReply | NotReady | EpochIs

# Raft


class GetProjection(Call, frozen=True, array_like=True):
    """The projection as it is after the call began."""


class Known(Answer, frozen=True, array_like=True):
    """What Raft's state says to everybody."""

    projection: Projection
    bound: RowNumber
    """Rows below this may have been given away."""
    trim: Natural
    """The first position that was not trimmed."""
    time_us: int = 0
    """No row of an earlier epoch has a later time."""
    unit_last: Natural = 0
    """The highest number that a unit ever had."""
    sequencers: tuple[tuple[int, Address], ...] = ()
    """The servers that can hand out rows, and where they are."""
    sizes: tuple[Natural, ...] = ()
    """How many units each set is to have: as many as when the log was founded."""
