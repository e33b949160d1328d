"""What messages take that the servers of all engines have in common, and what rules are made of.

A rule gets who asks and what came, and says what is passed on: the same, or the same with names as they are kept.
`NotAllowed` is answered. A message without a rule is passed on to nobody. What an answer says to somebody is put into
that one's words.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from ithaca.model.consumers import ConsumerCommand
from ithaca.model.errors import AuthenticationFailed
from ithaca.model.security.users import Right
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.consumers import (
    BeatGroup,
    ChangeConsumers,
    ConsumersAre,
    ConsumersChanged,
    GetConsumers,
    GetGroup,
)
from ithaca.protocol.greeting import GetStatus
from ithaca.protocol.members import AddOrderer, GetMembers, RemoveOrderer
from ithaca.protocol.users import ChangeUsers, ListUsers
from ithaca.users.caller import Caller

Rule: TypeAlias = Callable[[Caller, Received], Received]
Rules: TypeAlias = Mapping[type[msgspec.Struct], Rule]
Wording: TypeAlias = Mapping[type[msgspec.Struct], Callable[[Caller, Any], Message]]


def open_to_all(caller: Caller, received: Received) -> Received:
    """Whoever was let in may ask: how a server is, and where the others are, as over HTTP."""
    return received


def known(caller: Caller, received: Received) -> Received:
    """Any user may ask."""
    if not caller.name:
        raise AuthenticationFailed("nobody said who is asking: connect with a token or a certificate of a user")
    return received


def needs(right: Right) -> Rule:
    """It takes the right for all keys."""

    def rule(caller: Caller, received: Received) -> Received:
        caller.check(right)
        return received

    return rule


def needs_some(right: Right) -> Rule:
    """It takes the right for some keys; whoever does the work sees to it that it is those alone."""

    def rule(caller: Caller, received: Received) -> Received:
        caller.prefixes(right)
        return received

    return rule


def _change_consumers(caller: Caller, received: Received) -> Received:
    message: ChangeConsumers = received.message  # type: ignore[assignment]
    caller.prefixes("read")
    return received._replace(message=ChangeConsumers(tuple(owned_command(caller, each) for each in message.commands)))


def owned_command(caller: Caller, command: ConsumerCommand) -> ConsumerCommand:
    """The same of the consumer as it is kept."""
    return replace(command, name=caller.owned(command.name))


def _beat_group(caller: Caller, received: Received) -> Received:
    message: BeatGroup = received.message  # type: ignore[assignment]
    caller.prefixes("read")
    return received._replace(message=BeatGroup(replace(message.beat, name=caller.owned(message.beat.name))))


def _get_group(caller: Caller, received: Received) -> Received:
    message: GetGroup = received.message  # type: ignore[assignment]
    caller.prefixes("read")
    return received._replace(message=GetGroup(caller.owned(message.name)))


def _get_consumers(caller: Caller, received: Received) -> Received:
    message: GetConsumers = received.message  # type: ignore[assignment]
    caller.prefixes("read")
    if caller.is_admin:
        return received._replace(message=GetConsumers(after_name(caller, message.after)))
    return received._replace(message=GetConsumers(f"{caller.name}:{message.after}"))


def after_name(caller: Caller, after: str) -> str:
    """Where an administrator's list goes on: behind the name that was said last, or at the beginning."""
    return caller.owned(after) if after else ""


def _consumers_are(caller: Caller, message: ConsumersAre) -> ConsumersAre:
    """An administrator sees those of everybody."""
    own = tuple(replace(each, name=caller.said(each.name)) for each in message.items if caller.owns(each.name))
    return ConsumersAre(message.time_us, own)


def _consumers_changed(caller: Caller, message: ConsumersChanged) -> ConsumersChanged:
    return ConsumersChanged(tuple(replace(each, name=caller.said(each.name)) for each in message.outcomes))


RULES: Rules = {
    GetStatus: open_to_all,
    AddOrderer: needs("admin"),
    RemoveOrderer: needs("admin"),
    GetMembers: known,
    ChangeConsumers: _change_consumers,
    GetConsumers: _get_consumers,
    BeatGroup: _beat_group,
    GetGroup: _get_group,
    ChangeUsers: needs("admin"),
    ListUsers: needs("admin"),
}

WORDING: Wording = {ConsumersAre: _consumers_are, ConsumersChanged: _consumers_changed}
