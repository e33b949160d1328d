"""Who somebody is that has said hello: by a certificate, by a token, or nobody.

Tokens that were found valid are remembered by a digest, so that a connection more costs no work; those that were not
are few in a second, since each costs some.
"""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from ithaca.model.errors import AuthenticationFailed, InvalidInput, Overloaded
from ithaca.model.security.identity import Identity
from ithaca.model.security.users import OPERATOR, TokenHash
from ithaca.users.bucket import Bucket
from ithaca.users.limits import TOKEN_CHECKS_PER_S, TOKENS_REMEMBERED_MAX
from ithaca.users.table import UserTable
from ithaca.users.tokens import is_token, parse_token


class Known(NamedTuple):
    """A user, and the token that it is known by, if it is known by one."""

    name: str
    token: TokenHash | None = None


class Logins:
    """Who is who, for one server."""

    def __init__(self, cluster: str, secret: str | None, now_s: float) -> None:
        """`secret` is the operator's token, where there is one; servers have it, too."""
        self._cluster = cluster
        self._secret = secret
        self._checks = Bucket(TOKEN_CHECKS_PER_S, now_s)
        self._valid: OrderedDict[bytes, TokenHash] = OrderedDict()

    def is_secret(self, credentials: bytes) -> bool:
        """Whether somebody has what servers have."""
        return self._secret is not None and hmac.compare_digest(credentials, self._secret.encode())

    def known(
        self, identity: Identity | None, credentials: bytes, table: Callable[[], UserTable], now_s: float
    ) -> Known | None:
        """Who has this certificate, or this token; None for nobody, `AuthenticationFailed` for who is no user.

        The operator is known without the table.
        """
        certified = identity.user if identity is not None and identity.cluster == self._cluster else ""
        by_token = self._by_token(credentials, table, now_s) if credentials else None
        if by_token is not None and certified not in ("", by_token.name):
            raise AuthenticationFailed(
                f"the certificate is of user {certified}, and the token of user {by_token.name}: use one of them"
            )
        if by_token is not None or not certified:
            return by_token
        if certified != OPERATOR and certified not in table().by_name:
            raise AuthenticationFailed(
                f"{certified} is no user of this cluster, or was revoked: ithaca user add {certified} --certificate"
            )
        return Known(certified)

    def _by_token(self, credentials: bytes, table: Callable[[], UserTable], now_s: float) -> Known:
        refused = AuthenticationFailed("the token is not valid: it was revoked or rotated, or is of another cluster")
        try:
            text = credentials.decode()
            name = parse_token(text).user
        except (UnicodeDecodeError, InvalidInput):
            raise AuthenticationFailed("what was sent is no token: ithaca user add makes one") from None
        if name == OPERATOR:
            if not self.is_secret(credentials):
                raise refused
            return Known(name)
        user = table().by_name.get(name)
        kept = None if user is None else self._kept(text, user.tokens, now_s)
        if kept is None:
            raise refused
        return Known(name, kept)

    def _kept(self, text: str, tokens: tuple[TokenHash, ...], now_s: float) -> TokenHash | None:
        """Which of these was made of the token."""
        mark = hashlib.sha256(text.encode()).digest()
        seen = self._valid.get(mark)
        if seen is not None and seen in tokens:
            return seen
        wait_s = self._checks.wait_s(now_s)
        if wait_s > 0:
            raise Overloaded("too many tokens to be looked at: try again", retry_after_ms=int(wait_s * 1000) + 1)
        for kept in tokens:
            self._checks.take(1, now_s)
            if is_token(text, kept):
                self._valid[mark] = kept
                if len(self._valid) > TOKENS_REMEMBERED_MAX:
                    self._valid.popitem(last=False)
                return kept
        return None
