"""Who is on the other side of a connection, in a cluster that has users."""

from collections.abc import Callable

from ithaca.model.limits import CONSUMER_NAME_BYTES_MAX
from ithaca.model.security.users import Grant, Right, User
from ithaca.users.names import owned_name, owned_token, owner_of, said_name
from ithaca.users.rights import EVERYTHING, check_right, check_some


class Caller:
    """A user, the operator, or nobody, whose name is empty. What it may do is looked up each time: it may change."""

    __slots__ = ("_user", "is_operator", "name")

    def __init__(self, name: str, user: Callable[[], User | None], *, is_operator: bool = False) -> None:
        self.name = name
        self.is_operator = is_operator
        self._user = user

    @property
    def user(self) -> User | None:
        """As it is agreed on now; None for the operator and for nobody."""
        return None if self.is_operator else self._user()

    @property
    def grant(self) -> Grant:
        """What it may do now."""
        if self.is_operator:
            return EVERYTHING
        user = self._user()
        return Grant() if user is None else user.grant

    @property
    def is_admin(self) -> bool:
        return "admin" in self.grant.rights

    def check(self, right: Right) -> None:
        """`NotAllowed` unless it has the right, for all keys."""
        check_right(self.name, self.grant, right)

    def prefixes(self, right: Right) -> tuple[bytes, ...] | None:
        """By which prefixes it has the right, None for all keys; `NotAllowed` when it has none."""
        return check_some(self.name, self.grant, right)

    def owned(self, name: str, bytes_max: int = CONSUMER_NAME_BYTES_MAX) -> str:
        """How a name that it says is kept."""
        return owned_name(self.name, name, bytes_max=bytes_max, is_admin=self.is_admin)

    def said(self, kept: str) -> str:
        """A kept name as it says it."""
        return said_name(self.name, kept, is_admin=self.is_admin)

    def owns(self, kept: str) -> bool:
        """Whether what has this name is its own, or it administers all."""
        return owner_of(kept) == self.name or self.is_admin

    def token(self, token: bytes) -> bytes:
        """How a token of a part that it says is kept."""
        return owned_token(self.name, token)
