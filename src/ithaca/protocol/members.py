"""Who the orderers are, and what they say to each other."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.limits import ORDERER_NUMBER_MAX
from ithaca.model.view import Address, Orderers
from ithaca.protocol.fields import Counted, Natural
from ithaca.raft.messages import AnyMessage


class AddOrderer(msgspec.Struct, frozen=True, array_like=True):
    """Let the orderer that waits there into the group; the same again is the same orderer."""

    server: Annotated[int, Meta(ge=1, le=ORDERER_NUMBER_MAX)]
    address: Address


class RemoveOrderer(msgspec.Struct, frozen=True, array_like=True):
    """Let it go for good; one that was removed before stays so."""

    server: Annotated[int, Meta(ge=1, le=ORDERER_NUMBER_MAX)]


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


class RaftSays(msgspec.Struct, frozen=True, array_like=True):
    message: AnyMessage
