"""What clients ask the leader of any engine about named consumers (`model.consumers`, `model.groups`)."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.consumers import ConsumerCommand, ConsumerOutcome, ConsumerState
from ithaca.model.groups import GroupBeat, GroupMembers, GroupTold
from ithaca.model.limits import CONSUMER_COMMANDS_MAX, CONSUMER_NAME_BYTES_MAX
from ithaca.protocol.fields import Natural


class ChangeConsumers(msgspec.Struct, frozen=True, array_like=True):
    """Have these agreed on, in one entry, with those of others; at least once."""

    commands: Annotated[tuple[ConsumerCommand, ...], Meta(min_length=1, max_length=CONSUMER_COMMANDS_MAX)]


class ConsumersChanged(msgspec.Struct, frozen=True, array_like=True):
    """What came of each."""

    outcomes: tuple[ConsumerOutcome, ...]


class GetConsumers(msgspec.Struct, frozen=True, array_like=True):
    """Those whose names come after this one; linearizable."""

    after: Annotated[str, Meta(max_length=CONSUMER_NAME_BYTES_MAX)] = ""


class ConsumersAre(msgspec.Struct, frozen=True, array_like=True):
    """Some, in the order of their names; none at the end of the list. `time_us` is now, on the leader's clock."""

    time_us: Natural
    items: tuple[ConsumerState, ...]


class BeatGroup(msgspec.Struct, frozen=True, array_like=True):
    """A member of a group is alive: answered by who leads for certain."""

    beat: GroupBeat


class GroupBeaten(msgspec.Struct, frozen=True, array_like=True):
    """What the member is to do."""

    told: GroupTold


class GetGroup(msgspec.Struct, frozen=True, array_like=True):
    """Who the members of this group are."""

    name: Annotated[str, Meta(min_length=1, max_length=CONSUMER_NAME_BYTES_MAX)]


class GroupIs(msgspec.Struct, frozen=True, array_like=True):
    """Those that the leader has heard of, or presumes since they had parts open when it began to lead."""

    members: GroupMembers
