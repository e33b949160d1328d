"""Who the orderers are, and what they say to each other."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.limits import RAFT_NUMBER_MAX
from ithaca.model.view import Address, Orderers
from ithaca.protocol.fields import Counted, Natural
from ithaca.raft.messages import AnyMessage


class AddOrderer(msgspec.Struct, frozen=True, array_like=True):
    """Let the orderer that waits there into the group; the same again is the same orderer."""

    server: Annotated[int, Meta(ge=1, le=RAFT_NUMBER_MAX)]
    address: Address


class RemoveOrderer(msgspec.Struct, frozen=True, array_like=True):
    """Let it go for good; one that was removed before stays so."""

    server: Annotated[int, Meta(ge=1, le=RAFT_NUMBER_MAX)]


class GetMembers(msgspec.Struct, frozen=True, array_like=True):
    """Linearizable."""


class Member(msgspec.Struct, frozen=True, array_like=True):
    """One orderer. It votes once it has kept up with the others."""

    server: Counted
    address: Address
    votes: bool
    leads: bool


class MembersAre(msgspec.Struct, frozen=True, array_like=True):
    """The orderers by number; `last` is the highest number that one ever had."""

    members: tuple[Member, ...]
    last: Natural


class OrderersAre(msgspec.Struct, frozen=True, array_like=True):
    """The orderers are others now."""

    orderers: Orderers


class Clocks(msgspec.Struct, frozen=True, array_like=True):
    """What the speaker's clock shows, and what the order's time is as far as it knows: 0 if it does not."""

    wall_us: Annotated[int, Meta(ge=-(1 << 62), lt=1 << 62)]
    order_us: Annotated[int, Meta(ge=0, lt=1 << 62)] = 0


class RaftMessage(msgspec.Struct, frozen=True, array_like=True):
    """Orderers of earlier versions say nothing of their clocks."""

    message: AnyMessage
    clocks: Clocks | None = None
