"""Groups in words: what a member says to whoever assigns the parts, and what it is told.

Members ask again and again (a *beat*), and never for longer than their lease without: so whoever assigns knows who is
alive, and nothing has to be sent to a member that did not ask. What is told is a wish. A part is a member's once it has
opened it (`model.consumers.OpenGroupPart`), and until another member has.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.limits import (
    CONSUMER_NAME_BYTES_MAX,
    CONSUMER_PARTS_MAX,
    GROUP_LABEL_BYTES_MAX,
    GROUP_LEASE_S_MAX,
    GROUP_LEASE_S_MIN,
    GROUP_MEMBERS_MAX,
)

_Counted = Annotated[int, Meta(ge=1, lt=1 << 62)]
_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]
_PartNumber = Annotated[int, Meta(ge=0, lt=CONSUMER_PARTS_MAX)]
_Parts = Annotated[tuple[_PartNumber, ...], Meta(max_length=CONSUMER_PARTS_MAX)]


class GroupBeat(msgspec.Struct, frozen=True, array_like=True):
    """A member of this group is alive, and has these parts open.

    >>> GroupBeat("billing", member=7, number=1, holds=(0, 3), lease_ms=10_000).is_leaving
    False
    """

    name: Annotated[str, Meta(min_length=1, max_length=CONSUMER_NAME_BYTES_MAX)]
    member: _Counted
    number: _Counted
    """Of this beat: they rise, so that one which comes late is known."""
    holds: _Parts
    lease_ms: Annotated[int, Meta(ge=int(GROUP_LEASE_S_MIN * 1000), le=int(GROUP_LEASE_S_MAX * 1000))]
    is_leaving: bool = False
    label: Annotated[str, Meta(max_length=GROUP_LABEL_BYTES_MAX)] = ""


class GroupTold(msgspec.Struct, frozen=True, array_like=True):
    """Which parts the member is to have. What it has and finds in neither list is another's already.

    >>> GroupTold(parts=4, granted=(0,), asked_back=(3,), again_ms=500).asked_back
    (3,)
    """

    parts: Annotated[int, Meta(ge=1, le=CONSUMER_PARTS_MAX)]
    """Of the group."""
    granted: _Parts
    """To be opened, where it has not; to be kept, where it has."""
    asked_back: _Parts
    """Another member waits for these: hand out no more of them, finish and commit, and say that they are not held."""
    again_ms: _Natural
    """So much later the member should ask again."""


class GroupMember(msgspec.Struct, frozen=True):
    """A member of a group, as `Log.group_members` shows it.

    >>> GroupMember(member=7, label="host-1:4711", parts=(0, 3), asked_back=(), seen_s=0.2, lease_s=10.0).parts
    (0, 3)
    """

    member: _Counted
    label: str
    """Where it runs: its machine, and its process."""
    parts: _Parts
    """Those that it has, or was given and has not opened yet."""
    asked_back: _Parts
    """Those among them that are to go to others."""
    seen_s: float
    """For how long it has not been heard of."""
    lease_s: float
    """After so long its parts go to others."""


GroupMembers = Annotated[tuple[GroupMember, ...], Meta(max_length=2 * GROUP_MEMBERS_MAX)]
"""Of one group; those that a new leader presumes, from what they opened before, included."""
