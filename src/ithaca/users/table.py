"""The table of users: who there is, what each may do, and by which tokens it is known."""

from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from ithaca.model.security.users import (
    OPERATOR,
    USER_COMMANDS_MAX,
    USER_NAME_CHARS_MAX,
    USER_PREFIX_BYTES_MAX,
    USER_PREFIXES_MAX,
    USER_TOKENS_MAX,
    USERS_MAX,
    AddUser,
    Grant,
    GrantRights,
    LimitUser,
    RevokeUser,
    RotateToken,
    User,
    UserCommand,
    UserGone,
    UserOutcome,
    UserRefused,
    WithdrawRights,
    name_in,
    stands,
)

USER_BYTES = USER_NAME_CHARS_MAX + 256 + 2 * USER_PREFIXES_MAX * (USER_PREFIX_BYTES_MAX + 2)
"""What a user takes in a snapshot at most."""

_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]


class UserChanges(msgspec.Struct, frozen=True, array_like=True, tag="users"):
    """An entry: what an administrator asked for, one after the other."""

    commands: Annotated[tuple[UserCommand, ...], Meta(min_length=1, max_length=USER_COMMANDS_MAX)]


class PackedUsers(msgspec.Struct, frozen=True, array_like=True):
    """The table in a snapshot, and as servers are told it: how often it was changed, and the users by name."""

    version: _Natural = 0
    users: Annotated[list[User], Meta(max_length=USERS_MAX)] = []

    def __bool__(self) -> bool:
        """Whether there ever was a user."""
        return self.version > 0


class UserTable:
    """The users after some changes."""

    def __init__(self, packed: PackedUsers | None = None) -> None:
        packed = packed or PackedUsers()
        self.version = packed.version
        """Rises with each entry that names users, whatever comes of it."""
        self.by_name = {user.name: user for user in packed.users}

    def __len__(self) -> int:
        return len(self.by_name)

    @property
    def size_bytes(self) -> int:
        """A bound on what it takes in a snapshot."""
        return USER_BYTES * len(self.by_name)

    def packed(self) -> PackedUsers:
        """Equal tables are packed into equal bytes."""
        return PackedUsers(self.version, [self.by_name[name] for name in sorted(self.by_name)])

    def copy(self) -> "UserTable":
        return UserTable(self.packed())

    def apply(self, changes: UserChanges) -> tuple[UserOutcome, ...]:
        """Take in an entry: one outcome for each of its commands."""
        self.version += 1
        return tuple(map(self._apply, changes.commands))

    def _apply(self, command: UserCommand) -> UserOutcome:
        name = name_in(command)
        known = self.by_name.get(name)
        if isinstance(command, AddUser):
            return self._add(known, command.user)
        if isinstance(command, RevokeUser):
            self.by_name.pop(name, None)
            return UserGone(name)
        if known is None:
            return UserRefused(name, "unknown")
        match command:
            case RotateToken(token=token, keep=keep):
                others = [each for each in known.tokens if each != token] if keep else []
                return self._stands(replace(known, tokens=(token, *others[: USER_TOKENS_MAX - 1])))
            case GrantRights(grant=grant):
                return self._grant(known, known.grant.with_others(grant))
            case WithdrawRights(grant=grant):
                return self._grant(known, known.grant.without(grant))
            case LimitUser(limits=limits):
                return self._stands(replace(known, limits=limits))

    def _add(self, known: User | None, user: User) -> UserOutcome:
        user = replace(user, grant=user.grant.with_others(Grant()))
        if user.name == OPERATOR:
            return UserRefused(user.name, "reserved")
        if known is not None and known != user:
            return UserRefused(user.name, "known")
        if known is None and len(self.by_name) >= USERS_MAX:
            return UserRefused(user.name, "full")
        return self._stands(user)

    def _grant(self, known: User, grant: Grant) -> UserOutcome:
        if max(len(grant.read_prefixes), len(grant.append_prefixes)) > USER_PREFIXES_MAX:
            return UserRefused(known.name, "prefixes")
        return self._stands(replace(known, grant=grant))

    def _stands(self, user: User) -> UserOutcome:
        self.by_name[user.name] = user
        return stands(user)
