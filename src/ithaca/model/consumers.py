"""Named consumers in words: what is asked of their positions, what comes of it, and how they are shown.

A consumer is a name with a position: everything below it was processed. Whoever opens it gets an *epoch*, and only
commits under the newest one count. A plain consumer has one part; each part has an epoch and a position of its own. A
*group* has several, which its members share: what they say to whoever assigns them is in `model.groups`.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from ithaca.model.arguments import instance, items
from ithaca.model.errors import ConsumerFenced, InvalidInput, IthacaError, NamesFull, NoSuchConsumer
from ithaca.model.limits import (
    CONSUMER_COMMANDS_MAX,
    CONSUMER_NAME_BYTES_MAX,
    CONSUMER_PARTS_MAX,
    CONSUMER_PARTS_TOTAL_MAX,
    CONSUMERS_MAX,
)

_Name = Annotated[str, Meta(min_length=1, max_length=CONSUMER_NAME_BYTES_MAX)]
_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Counted = Annotated[int, Meta(ge=1, lt=1 << 62)]
_PartNumber = Annotated[int, Meta(ge=0, lt=CONSUMER_PARTS_MAX)]


# What is asked


class OpenConsumer(msgspec.Struct, frozen=True, array_like=True, tag="open"):
    """Go on as this consumer, which is made if there is none, at `start`; whoever had it open is fenced.

    The same `owner` again is the same handle, whose question came twice.
    """

    name: _Name
    owner: _Counted
    start: _Counted


class MakeGroup(msgspec.Struct, frozen=True, array_like=True, tag="make"):
    """Have a group of this name, whose parts begin at `start`; one that there is stays as it is, if its parts are as
    many. Without `parts` it is asked for as it is, and made with so many as there are by default."""

    name: _Name
    start: _Counted
    parts: Annotated[int, Meta(ge=0, le=CONSUMER_PARTS_MAX)] = 0


class OpenGroupPart(msgspec.Struct, frozen=True, array_like=True, tag="take"):
    """Go on with one part of a group; whoever had it is fenced. The same `owner` again is the same member."""

    name: _Name
    part: _PartNumber
    owner: _Counted


class CommitPosition(msgspec.Struct, frozen=True, array_like=True, tag="commit"):
    """Everything below `position` was processed. A position never falls by it."""

    name: _Name
    part: _PartNumber
    epoch: _Counted
    position: _Counted


class ResetConsumer(msgspec.Struct, frozen=True, array_like=True, tag="reset"):
    """All parts stand at `position` from now on, and whoever had one is fenced.

    `stamp` is the consumer as it was seen: it counts unless somebody opened or changed it meanwhile. The same `owner`
    again is the same question.
    """

    name: _Name
    owner: _Counted
    stamp: _Counted
    position: _Counted


class DeleteConsumer(msgspec.Struct, frozen=True, array_like=True, tag="delete"):
    """Forget the consumer, if it is the one that was `made` then."""

    name: _Name
    made: _Counted


class ExpireConsumer(msgspec.Struct, frozen=True, array_like=True, tag="expire"):
    """Forget the consumer, unless it was used since it had this stamp."""

    name: _Name
    stamp: _Counted


ConsumerCommand = (
    OpenConsumer | MakeGroup | OpenGroupPart | CommitPosition | ResetConsumer | DeleteConsumer | ExpireConsumer
)


# What comes of it


class PartStands(msgspec.Struct, frozen=True, array_like=True, tag="stands"):
    """A part of a consumer, under this epoch and at this position now."""

    name: str
    part: _Natural
    epoch: _Counted
    position: _Counted


class GroupStands(msgspec.Struct, frozen=True, array_like=True, tag="group"):
    """There is a group of this name, in so many parts."""

    name: str
    parts: _Counted


class ConsumerGone(msgspec.Struct, frozen=True, array_like=True, tag="gone"):
    """There is no consumer of this name any more."""

    name: str


Refusal = Literal["unknown", "fenced", "full", "used", "group", "behind"]
"""`full`: there is no room for its name, or for its parts. `used`: it was opened or changed meanwhile. `group`: its
work is shared, or not, other than was asked for. `behind`: it was committed further already."""


class ConsumerRefused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """Nothing changed; `epoch` is the newest one of the part, 0 where there is none."""

    name: str
    reason: Refusal
    epoch: _Natural = 0


ConsumerOutcome = PartStands | GroupStands | ConsumerGone | ConsumerRefused
"""One for each command, in their order."""


# What there is


class ConsumerPart(msgspec.Struct, frozen=True, array_like=True):
    """One part: its newest epoch, the handle that has it (0: nobody), and its position."""

    epoch: _Natural
    owner: _Natural
    position: _Counted


class ConsumerState(msgspec.Struct, frozen=True, array_like=True):
    """One consumer, as it is agreed on."""

    name: str
    made: _Counted
    """The stamp with which it was made: another consumer of the same name has another."""
    stamp: _Counted
    """Of its newest use. Stamps rise with every change of any consumer, and are never given twice."""
    used_us: _Natural
    """When that was, by the clock of who led."""
    parts: tuple[ConsumerPart, ...]
    is_group: bool = False

    @property
    def position(self) -> int:
        """Everything below was processed, in all parts."""
        return min(part.position for part in self.parts)


class Lag(msgspec.Struct, frozen=True):
    """How far a consumer is behind the tail.

    >>> Lag(positions=3, records=3, seconds=0.5, bytes=120).records
    3
    """

    positions: int
    """Between where it stands and the tail, whether each of them holds a record or not."""
    records: int | None
    """How many records that is; None in engines that leave positions empty. With a filter some are not its own."""
    seconds: float
    """For how long the first of them has been in the log, by its timestamp; 0 when there is none."""
    bytes: int
    """An estimate of what the records that are left have, decompressed, with those of all keys: as if all were like
    the first ones, which are looked at."""


class ConsumerInfo(msgspec.Struct, frozen=True):
    """A named consumer, as `Log.consumers` shows it.

    >>> info = ConsumerInfo("billing", 7, (7,), lag_positions=3, lag_records=3, lag_s=0.5, lag_bytes=120, idle_s=9)
    >>> info.position
    7
    """

    name: str
    position: int
    """Everything below was processed, and committed."""
    positions: tuple[int, ...]
    """That of each part: a consumer that is no group has one."""
    lag_positions: int
    lag_records: int | None
    lag_s: float
    lag_bytes: int
    """As in `Lag`."""
    idle_s: float
    """For how long it was neither opened nor committed."""
    is_group: bool = False


def refusal_error(refused: ConsumerRefused) -> IthacaError:
    """What a caller is told.

    >>> type(refusal_error(ConsumerRefused("billing", "fenced", 9))).__name__
    'ConsumerFenced'
    """
    name = refused.name
    match refused.reason:
        case "unknown":
            return NoSuchConsumer(f"there is no consumer {name!r}: it was never opened, was deleted, or has expired")
        case "fenced":
            return ConsumerFenced(
                f"consumer {name!r} was opened again elsewhere, or reset: this handle commits nothing any more, and "
                "the other goes on from what was committed"
            )
        case "full":
            return NamesFull(
                f"consumer {name!r} cannot be opened, since {CONSUMERS_MAX} names are taken, or all parts of groups, "
                f"which are {CONSUMER_PARTS_TOTAL_MAX}: delete one that nobody needs any more (ithaca consumer "
                "list, ithaca consumer delete NAME)"
            )
        case "used":
            return ConsumerFenced(
                f"consumer {name!r} was opened or changed at the same time: look again, and repeat it"
            )
        case "behind":
            return InvalidInput(
                f"consumer {name!r} was committed further than what was consumed now: nothing was published"
            )
        case "group":
            return InvalidInput(
                f"consumer {name!r} is a group, or none, or has another number of parts than was asked for: open it as "
                "it was opened first"
            )


def check_consumer_name(name: str) -> None:
    """`InvalidInput` unless it can be a consumer's name."""
    if not isinstance(name, str) or not 0 < len(name.encode()) <= CONSUMER_NAME_BYTES_MAX:
        raise InvalidInput(f"a consumer's name has 1 to {CONSUMER_NAME_BYTES_MAX} bytes, not {name!r}")


def checked_commands(commands: Sequence[ConsumerCommand]) -> tuple[ConsumerCommand, ...]:
    """`InvalidInput` for what is no change, and for too many at a time."""
    found = tuple(items(commands, "commands", "a list of changes of consumers"))
    for each in found:
        instance(each, get_args(ConsumerCommand), "commands", "a list of changes of consumers")
    if not 1 <= len(found) <= CONSUMER_COMMANDS_MAX:
        raise InvalidInput(f"{len(found)} changes of consumers: use 1 to {CONSUMER_COMMANDS_MAX} at a time")
    return found
