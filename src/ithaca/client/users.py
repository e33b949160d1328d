"""The users of a cluster, as a handle of whatever engine asks the leader about them.

A token is made here, and what the cluster gets is its hash: nobody but whoever asked ever has the token.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce

from ithaca.model.arguments import flag, instance, items, whole
from ithaca.model.errors import ProtocolError
from ithaca.model.interface.shared import UserInfo
from ithaca.model.security.users import (
    AddUser,
    Grant,
    GrantRights,
    LimitUser,
    RevokeUser,
    RotateToken,
    TokenHash,
    User,
    UserCommand,
    UserLimits,
    UserRefused,
    UserStands,
    WithdrawRights,
    checked_user_name,
    parse_right,
    refusal_of,
    shown_rights,
)
from ithaca.protocol.codec import Message
from ithaca.protocol.users import ChangeUsers, ListUsers, UsersChanged, UsersListed
from ithaca.runtime.machine import rng
from ithaca.users.tokens import SALT_BYTES, SECRET_BYTES, hash_token, token_text


class UserAdmin(ABC):
    """What the administration of a cluster does with users."""

    @abstractmethod
    async def _ask_about_users(self, message: Message) -> Message:
        """What the leader answers."""

    async def users(self) -> tuple[UserInfo, ...]:
        found: list[UserStands] = []
        while True:
            answer = await self._ask_about_users(ListUsers(found[-1].name if found else ""))
            if not isinstance(answer, UsersListed):
                raise ProtocolError(f"the leader answered ListUsers with {type(answer).__name__}")
            if not answer.items:
                return tuple(map(_info, found))
            found += answer.items

    async def add_user(
        self, name: str, rights: Sequence[str] = (), *, limits: UserLimits | None = None, certificate: bool = False
    ) -> str:
        name, token = checked_user_name(name), ""
        tokens: tuple[TokenHash, ...] = ()
        if not flag(certificate, "certificate"):
            token, kept = new_token(name)
            tokens = (kept,)
        await self._change(AddUser(User(name, _grant(rights), tokens, _checked(limits or UserLimits()))))
        return token

    async def rotate_token(self, name: str, *, keep: bool = True) -> str:
        token, kept = new_token(checked_user_name(name))
        await self._change(RotateToken(name, kept, flag(keep, "keep")))
        return token

    async def revoke_user(self, name: str) -> None:
        await self._change(RevokeUser(checked_user_name(name)))

    async def grant(self, name: str, rights: Sequence[str]) -> None:
        await self._change(GrantRights(checked_user_name(name), _grant(rights)))

    async def withdraw(self, name: str, rights: Sequence[str]) -> None:
        await self._change(WithdrawRights(checked_user_name(name), _grant(rights)))

    async def limit_user(self, name: str, limits: UserLimits) -> None:
        await self._change(LimitUser(checked_user_name(name), _checked(limits)))

    async def _change(self, command: UserCommand) -> None:
        answer = await self._ask_about_users(ChangeUsers((command,)))
        if not isinstance(answer, UsersChanged) or len(answer.outcomes) != 1:
            raise ProtocolError(f"the leader answered ChangeUsers with {type(answer).__name__}")
        (outcome,) = answer.outcomes
        if isinstance(outcome, UserRefused):
            raise refusal_of(outcome)


def new_token(user: str) -> tuple[str, TokenHash]:
    """A token, and what is kept of it; chance is the system's own, which nobody can guess."""
    token = token_text(user, rng().randbytes(SECRET_BYTES))
    return token, hash_token(token, rng().randbytes(SALT_BYTES))


def _grant(rights: Sequence[str]) -> Grant:
    wanted = f"a list, such as [{rights if isinstance(rights, str) else 'read'!r}]"
    return reduce(Grant.with_others, map(parse_right, items(rights, "rights", wanted)), Grant())


def _checked(limits: UserLimits) -> UserLimits:
    instance(limits, UserLimits, "limits", "ithaca.UserLimits(requests_per_s=100)")
    for name in limits.__struct_fields__:
        whole(getattr(limits, name), name)
    return limits


def _info(user: UserStands) -> UserInfo:
    return UserInfo(user.name, tuple(shown_rights(user.grant)), user.token_count, user.limits)
