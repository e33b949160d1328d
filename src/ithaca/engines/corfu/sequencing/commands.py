"""What the Raft group is asked to decide, as entries of its log, and what comes out."""

from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from ithaca.consumers.table import ConsumerChanges
from ithaca.engines.corfu.sequencing.calls import Answer, Call, Known
from ithaca.engines.corfu.sequencing.limits import UNITS_MAX
from ithaca.engines.corfu.sequencing.projection import Chain, Natural, RowNumber, UnitMember, UnitNumber
from ithaca.model.consumers import ConsumerOutcome
from ithaca.model.limits import SESSION_NAME_BYTES_MAX
from ithaca.model.view import Address

Name = Annotated[str, Meta(max_length=SESSION_NAME_BYTES_MAX)]
Sets = Annotated[tuple[Chain, ...], Meta(min_length=1, max_length=UNITS_MAX)]


class FoundLog(msgspec.Struct, frozen=True, array_like=True, tag="found"):
    """The first entry: the log, its units, and its first projection. Void when there is one."""

    log: UUID
    units: tuple[UnitMember, ...]
    sets: Sets
    sequencer: int
    grant: RowNumber
    sequencers: tuple[tuple[int, Address], ...] = ()


class Joined(msgspec.Struct, frozen=True, array_like=True):
    """A unit that has a copy of all rows of one set of a closed range."""

    start: RowNumber
    """Of the range."""
    set: Natural
    unit: UnitNumber
    instead: Natural = 0
    """The unit that leaves the chain for it; 0 for none."""


class NextEpoch(msgspec.Struct, frozen=True, array_like=True, tag="next"):
    """The epoch was sealed; decide on the one after it. Void when another one has been decided meanwhile.

    Only units that have answered the seal go on: the others are removed for good.
    """

    epoch: Natural
    """The one that was sealed."""
    sealed: tuple[UnitNumber, ...]
    highest: Annotated[int, Meta(ge=-1)]
    """The highest row on any of them."""
    time_us: int
    """The highest time of a row on any of them."""
    sets: Sets
    """Of the new active range."""
    sequencer: int
    """0 for none: then clients contend for rows."""
    grant: RowNumber
    """Rows that the new sequencer may give at once."""
    joined: tuple[Joined, ...] = ()
    sizes: tuple[Natural, ...] = ()
    """How many units each set is to have from now on; nothing where that does not change."""
    finished: RowNumber = 0
    """Ranges that end at this row or before were trimmed as a whole, and need no units any more."""


class InEpoch(msgspec.Struct, frozen=True, array_like=True):
    """Void in another epoch than this one."""

    epoch: Natural


class Grant(InEpoch, frozen=True, array_like=True, tag="grant"):
    """Raise the bound of the epoch."""

    bound: RowNumber


class Settled(InEpoch, frozen=True, array_like=True, tag="settled"):
    """Everything below the start of the epoch's active range is settled, and its sequencer begins; void, too, when it
    has begun before.
    """


class AddUnit(msgspec.Struct, frozen=True, array_like=True, tag="unit"):
    """A unit that nobody writes to yet: a spare. The same identity again is the same unit."""

    address: Address
    identity: UUID


class OpenSession(msgspec.Struct, frozen=True, array_like=True, tag="open"):
    """Raise the epoch of a session, which is made if there is none."""

    name: Name


class ExpireSession(msgspec.Struct, frozen=True, array_like=True, tag="expire"):
    name: Name


class TrimLog(InEpoch, frozen=True, array_like=True, tag="trim"):
    """Let everything before this position go, which was below the tail of the epoch."""

    before: Natural


class GetSessions(Call, frozen=True, array_like=True):
    """Which sessions have older handles; no entry, but a read behind everything that was decided."""


class GetSession(Call, frozen=True, array_like=True):
    """The epoch of one session, by its producer, as it is after the call began: `SessionsAre`."""

    producer: Natural


Command = FoundLog | NextEpoch | Grant | Settled | AddUnit | OpenSession | ExpireSession | TrimLog | ConsumerChanges


class SessionIs(Answer, frozen=True, array_like=True):
    """A session, with what was known when it was opened: its older handles are to be fenced under that epoch, or a
    later one."""

    name: str
    producer: int
    epoch: int
    known: Known


class SessionsAre(Answer, frozen=True, array_like=True):
    """The epochs of all sessions that were opened more than once, by producer; others have no older handles. Or the
    epoch of the one that was asked for, if there is such a session."""

    fences: tuple[tuple[int, int], ...]


class Void(Answer, frozen=True, array_like=True):
    """The entry changed nothing; `known` is what holds instead."""

    reason: str
    known: Known | None = None


class ConsumersTold(Answer, frozen=True, array_like=True):
    """What came of each command of a `ConsumerChanges`."""

    outcomes: tuple[ConsumerOutcome, ...]


Outcome = Known | SessionIs | ConsumersTold | Void
