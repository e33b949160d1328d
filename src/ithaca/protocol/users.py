"""What administrators ask about users, and how servers learn of them, in every engine (`model.security.users`)."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.security.users import (
    USER_COMMANDS_MAX,
    USER_NAME_CHARS_MAX,
    USERS_MAX,
    AddUser,
    RotateToken,
    UserCommand,
    UserOutcome,
    UserStands,
)
from ithaca.protocol.fields import Natural
from ithaca.users.table import PackedUsers


class ChangeUsers(msgspec.Struct, frozen=True, array_like=True):
    """Have these agreed on, in one entry."""

    commands: Annotated[tuple[UserCommand, ...], Meta(min_length=1, max_length=USER_COMMANDS_MAX)]


class UsersChanged(msgspec.Struct, frozen=True, array_like=True):
    """What came of each."""

    outcomes: tuple[UserOutcome, ...]


class ListUsers(msgspec.Struct, frozen=True, array_like=True):
    """Those whose names come after this one; linearizable."""

    after: Annotated[str, Meta(max_length=USER_NAME_CHARS_MAX)] = ""


class UsersListed(msgspec.Struct, frozen=True, array_like=True):
    """Some, in the order of their names; none at the end of the list."""

    items: Annotated[tuple[UserStands, ...], Meta(max_length=USERS_MAX)]


class GetUsers(msgspec.Struct, frozen=True, array_like=True):
    """A server that does not hold the table has this version of it."""

    version: Natural = 0


class UsersAre(msgspec.Struct, frozen=True, array_like=True):
    """The table as far as an orderer has applied it, which hears a leader; None for one that is not newer."""

    table: PackedUsers | None


def shown_changes(message: ChangeUsers) -> list[str]:
    """What is asked for, for people: without what tokens are hashed to.

    >>> from ithaca.model.security.users import RevokeUser
    >>> shown_changes(ChangeUsers((RevokeUser("alice"),)))
    ["RevokeUser(name='alice')"]
    """
    return [_shown(command) for command in message.commands]


def _shown(command: UserCommand) -> str:
    match command:
        case AddUser(user=user):
            return f"AddUser(name={user.name!r}, grant={user.grant!r}, limits={user.limits!r})"
        case RotateToken(name=name, keep=keep):
            return f"RotateToken(name={name!r}, keep={keep})"
        case _:
            return repr(command)
