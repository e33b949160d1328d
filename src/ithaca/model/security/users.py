"""Users in words: who may do what, how tokens are kept, what is asked of the table of users and what comes of it.

A user is known by a certificate of the cluster, or by a token. A right is of the whole log; reading and appending may
be given by prefixes of keys instead.
"""

import re
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta

from ithaca.model.errors import InvalidInput, IthacaError, NamesFull, NoSuchUser
from ithaca.model.limits import CONNECTIONS_MAX

USERS_MAX = 1024
"""Users of a cluster."""
USER_NAME_CHARS_MAX = 64
USER_PREFIXES_MAX = 16
"""Prefixes by which a user may read, and as many by which it may append."""
USER_PREFIX_BYTES_MAX = 64
USER_TOKENS_MAX = 2
"""Tokens of a user that are valid at a time, so that one can be rotated."""
USER_COMMANDS_MAX = 64
"""Changes of users in one request."""
USER_RATE_MAX = 1 << 40
"""The largest number that a limit of a user can be."""
SCRYPT_LOG2_N_MAX = 15
SCRYPT_R_MAX = 16
SCRYPT_P_MAX = 4
"""What a server spends at most to look at one token: 64 MiB, for a moment."""

OPERATOR: Final = "operator"
"""The user that is always there and may do everything: nobody adds, changes or revokes it."""

Right = Literal["read", "append", "trim", "admin"]
RIGHTS: Final[tuple[Right, ...]] = get_args(Right)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
_Name = Annotated[str, Meta(min_length=1, max_length=USER_NAME_CHARS_MAX, pattern=f"^{_NAME.pattern}$")]
_Rights = Annotated[tuple[Right, ...], Meta(max_length=len(RIGHTS))]
_Prefix = Annotated[bytes, Meta(min_length=1, max_length=USER_PREFIX_BYTES_MAX)]
_Prefixes = Annotated[tuple[_Prefix, ...], Meta(max_length=USER_PREFIXES_MAX)]
_Limit = Annotated[int, Meta(ge=0, le=USER_RATE_MAX)]


class TokenHash(msgspec.Struct, frozen=True, array_like=True):
    """A token as it is kept: scrypt's digest of it, with the salt and the parameters that it was made with."""

    salt: Annotated[bytes, Meta(min_length=16, max_length=16)]
    digest: Annotated[bytes, Meta(min_length=32, max_length=32)]
    log2_n: Annotated[int, Meta(ge=1, le=SCRYPT_LOG2_N_MAX)] = 10
    r: Annotated[int, Meta(ge=1, le=SCRYPT_R_MAX)] = 8
    p: Annotated[int, Meta(ge=1, le=SCRYPT_P_MAX)] = 1


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """Rights: of the whole log, and of the keys that begin with one of these."""

    rights: _Rights = ()
    read_prefixes: _Prefixes = ()
    append_prefixes: _Prefixes = ()

    def with_others(self, others: "Grant") -> "Grant":
        """Both together.

        >>> Grant(("read",)).with_others(Grant(("append", "read"))).rights
        ('read', 'append')
        """
        return Grant(
            _in_order({*self.rights, *others.rights}),
            tuple(sorted({*self.read_prefixes, *others.read_prefixes})),
            tuple(sorted({*self.append_prefixes, *others.append_prefixes})),
        )

    def without(self, others: "Grant") -> "Grant":
        """What is left when those are taken away.

        >>> Grant(("read", "trim")).without(Grant(("trim",))).rights
        ('read',)
        """
        return Grant(
            _in_order({*self.rights} - {*others.rights}),
            tuple(sorted({*self.read_prefixes} - {*others.read_prefixes})),
            tuple(sorted({*self.append_prefixes} - {*others.append_prefixes})),
        )

    def covers(self, others: "Grant") -> bool:
        """Whether nothing is in the others that is not in this one."""
        return self.with_others(others) == self.with_others(Grant())


def _in_order(rights: set[Right]) -> tuple[Right, ...]:
    return tuple(right for right in RIGHTS if right in rights)


class UserLimits(msgspec.Struct, frozen=True, array_like=True):
    """What a user may use, of each server unless it says otherwise. 0 is no limit but those of everybody.

    >>> UserLimits(requests_per_s=100).bytes_per_s
    0
    """

    connections: Annotated[int, Meta(ge=0, le=CONNECTIONS_MAX)] = 0
    requests_per_s: _Limit = 0
    bytes_per_s: _Limit = 0
    """Of what it sends and of what it is sent."""
    inflight_bytes: _Limit = 0
    """Of requests that were not answered yet."""
    sessions: _Limit = 0
    """Of the cluster, those without names included."""
    parts: _Limit = 0
    """Of the cluster: prepared and not published yet."""


class User(msgspec.Struct, frozen=True, array_like=True):
    """A user as it is agreed on."""

    name: _Name
    grant: Grant = Grant()
    tokens: Annotated[tuple[TokenHash, ...], Meta(max_length=USER_TOKENS_MAX)] = ()
    """The newest first."""
    limits: UserLimits = UserLimits()


# What is asked


class AddUser(msgspec.Struct, frozen=True, array_like=True, tag="add"):
    """A new user. One without a token is known by its certificate alone. The same again is the same question."""

    user: User


class RotateToken(msgspec.Struct, frozen=True, array_like=True, tag="rotate"):
    """Another token is valid from now on; the one before it goes on if it is to be kept, and none else."""

    name: _Name
    token: TokenHash
    keep: bool = True


class RevokeUser(msgspec.Struct, frozen=True, array_like=True, tag="revoke"):
    """There is no such user any more. What it has appended stays."""

    name: _Name


class GrantRights(msgspec.Struct, frozen=True, array_like=True, tag="grant"):
    """Rights that a user has from now on beside its others."""

    name: _Name
    grant: Grant


class WithdrawRights(msgspec.Struct, frozen=True, array_like=True, tag="withdraw"):
    """Rights that a user has no longer."""

    name: _Name
    grant: Grant


class LimitUser(msgspec.Struct, frozen=True, array_like=True, tag="limit"):
    """All limits of a user, from now on."""

    name: _Name
    limits: UserLimits


UserCommand = AddUser | RotateToken | RevokeUser | GrantRights | WithdrawRights | LimitUser


def name_in(command: UserCommand) -> str:
    """Whom it is about."""
    return command.user.name if isinstance(command, AddUser) else command.name


# What comes of it


class UserStands(msgspec.Struct, frozen=True, array_like=True, tag="stands"):
    """The user as it is now, without what its tokens are hashed to."""

    name: str
    grant: Grant
    token_count: int
    limits: UserLimits


class UserGone(msgspec.Struct, frozen=True, array_like=True, tag="gone"):
    name: str


class UserRefused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """Nothing was changed."""

    name: str
    reason: Literal["unknown", "known", "reserved", "full", "prefixes"]


UserOutcome = UserStands | UserGone | UserRefused


def stands(user: User) -> UserStands:
    """A user as people see it.

    >>> stands(User("alice", Grant(("read",)))).token_count
    0
    """
    return UserStands(user.name, user.grant, len(user.tokens), user.limits)


def refusal_of(outcome: UserRefused) -> IthacaError:
    """The error that says why a user was not changed."""
    name = outcome.name
    match outcome.reason:
        case "unknown":
            return NoSuchUser(f"there is no user {name!r}: ithaca user list names those that there are")
        case "known":
            return InvalidInput(f"there is a user {name!r} already: change it, or revoke it first")
        case "reserved":
            return InvalidInput(f"the user {name!r} is always there, and may do everything: choose another name")
        case "full":
            return NamesFull(f"there are {USERS_MAX} users, and there cannot be more: revoke some first")
        case "prefixes":
            return InvalidInput(f"user {name!r} would have more than {USER_PREFIXES_MAX} prefixes for one right")


def checked_user_name(name: object) -> str:
    """The name of a user; `InvalidInput` says what it may be.

    >>> checked_user_name("alice"), checked_user_name("etl@bank.example")
    ('alice', 'etl@bank.example')
    """
    if isinstance(name, str) and len(name) <= USER_NAME_CHARS_MAX and _NAME.fullmatch(name):
        return name
    raise InvalidInput(
        f"{name!r} is no name of a user: use letters, digits, dots, hyphens, underscores and @, "
        f"at most {USER_NAME_CHARS_MAX} of them"
    )


def parse_right(text: str) -> Grant:
    """A right as it is written: `read`, `append`, `trim`, `admin`, or `read:PREFIX`, `append:PREFIX`.

    >>> parse_right("trim"), parse_right("read:orders/").read_prefixes
    (Grant(rights=('trim',), read_prefixes=(), append_prefixes=()), (b'orders/',))
    """
    right, colon, prefix = text.partition(":") if isinstance(text, str) else ("", "", "")
    data = prefix.encode()
    if right in RIGHTS and not colon:
        return Grant((right,))
    if right in ("read", "append") and 0 < len(data) <= USER_PREFIX_BYTES_MAX:
        return Grant((), (data,)) if right == "read" else Grant((), (), (data,))
    raise InvalidInput(
        f"{text!r} is no right: use {', '.join(RIGHTS)}, or read:PREFIX and append:PREFIX with a prefix of keys of at "
        f"most {USER_PREFIX_BYTES_MAX} bytes"
    )


def shown_rights(grant: Grant) -> list[str]:
    """Rights as they are written.

    >>> shown_rights(Grant(("trim",), (b"orders/",)))
    ['trim', 'read:orders/']
    """
    reads = [f"read:{prefix.decode('utf-8', 'backslashreplace')}" for prefix in grant.read_prefixes]
    appends = [f"append:{prefix.decode('utf-8', 'backslashreplace')}" for prefix in grant.append_prefixes]
    return [*grant.rights, *reads, *appends]
