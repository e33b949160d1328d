"""What an orderer of whatever engine answers about users, of the table that it holds."""

from itertools import islice

from ithaca.model.errors import Overloaded, Unavailable
from ithaca.model.limits import NAMES_ANSWERED_MAX
from ithaca.model.security.users import stands
from ithaca.protocol.users import GetUsers, ListUsers, UsersAre, UsersListed
from ithaca.users.table import UserTable


def listed_users(table: UserTable, message: ListUsers) -> UsersListed:
    """A page of the list."""
    names = (name for name in sorted(table.by_name) if name > message.after)
    return UsersListed(tuple(stands(table.by_name[name]) for name in islice(names, NAMES_ANSWERED_MAX)))


def too_many(user: str, count: int, what: str, most: int) -> Overloaded:
    """That a user has as many of something as it may have."""
    return Overloaded(f"user {user} has {count} {what}, and may have {most}: have some go first", retry_after_ms=1000)


def users_are(table: UserTable, message: GetUsers, *, is_current: bool) -> UsersAre:
    """What a server is told that has some version; `Unavailable` from an orderer that may have missed changes."""
    if not is_current:
        raise Unavailable("this orderer hears no leader, or has just begun to: it may not know all users, ask another")
    return UsersAre(table.packed() if table.version > message.version else None)
