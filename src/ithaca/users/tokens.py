"""Tokens: `itk:USER:SECRET`, where the secret is 32 random bytes as text. Whoever has one is that user.

The cluster keeps what scrypt makes of it. Secrets are not guessed but random, so that little work is enough; salts and
parameters are kept with each hash, and may change from one token to the next.
"""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from typing import Final, NamedTuple

from ithaca.model.errors import InvalidInput
from ithaca.model.security.users import TokenHash, checked_user_name

_MARK: Final = "itk"
SECRET_BYTES: Final = 32
SALT_BYTES: Final = 16
_SCRYPT_BYTES_MAX: Final = 80 << 20


class Token(NamedTuple):
    """A token taken apart."""

    user: str
    secret: str

    def __repr__(self) -> str:
        """Nothing that is secret.

        >>> Token("alice", "secret")
        Token(user='alice')
        """
        return f"Token(user={self.user!r})"


def token_text(user: str, secret: bytes) -> str:
    """The token of a user with this secret.

    >>> token_text("alice", bytes(32))
    'itk:alice:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
    """
    return f"{_MARK}:{user}:{urlsafe_b64encode(secret).decode().rstrip('=')}"


def parse_token(text: str) -> Token:
    """`InvalidInput`, which does not repeat it, for what is no token.

    >>> parse_token("itk:alice:AAAA").user
    'alice'
    """
    mark, _, rest = text.partition(":")
    user, _, secret = rest.partition(":")
    if mark != _MARK or not secret or ":" in secret or not secret.isascii() or not secret.isprintable():
        raise InvalidInput("this is no token: one begins with itk: and is made by ithaca user add")
    return Token(checked_user_name(user), secret)


def hash_token(text: str, salt: bytes, *, log2_n: int = 10) -> TokenHash:
    """What is kept of a token."""
    made = TokenHash(salt, bytes(32), log2_n)
    return TokenHash(salt, _digest(text, made), log2_n)


def is_token(text: str, kept: TokenHash) -> bool:
    """Whether this was made of that token.

    >>> kept = hash_token("itk:alice:AAAA", bytes(16), log2_n=1)
    >>> is_token("itk:alice:AAAA", kept), is_token("itk:alice:AAAB", kept)
    (True, False)
    """
    return hmac.compare_digest(_digest(text, kept), kept.digest)


def _digest(text: str, kept: TokenHash) -> bytes:
    return hashlib.scrypt(
        text.encode(), salt=kept.salt, n=1 << kept.log2_n, r=kept.r, p=kept.p, maxmem=_SCRYPT_BYTES_MAX, dklen=32
    )
