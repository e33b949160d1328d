"""Whom names and parts belong to: the name of its owner is part of each name that the cluster keeps.

What user `alice` calls `etl` is kept as `alice:etl`; a name that nobody asks for again, `~7`, as `~alice:7`. Names that
were there before the cluster had users belong to nobody. An administrator reaches names of others by writing them
whole, and those of nobody by a colon in front. Tokens of parts are mixed with the name of whoever opened the part, so
that a token that was stolen is that of no part in other hands.
"""

import hashlib
from typing import Final

from ithaca.model.errors import InvalidInput
from ithaca.model.limits import PART_TOKEN_BYTES

ANONYMOUS: Final = "~"
"""Names of sessions that nobody will ask for again begin with this."""
_SEPARATOR: Final = ":"
_TAG_BYTES: Final = 4


def owned_name(user: str, name: str, *, bytes_max: int, is_admin: bool = False) -> str:
    """How a name is kept that this user says.

    >>> owned_name("alice", "etl", bytes_max=255), owned_name("alice", "~7", bytes_max=255)
    ('alice:etl', '~alice:7')
    >>> owned_name("root", "alice:etl", bytes_max=255, is_admin=True)
    'alice:etl'
    >>> owned_name("root", ":etl", bytes_max=255, is_admin=True)
    'etl'
    """
    if is_admin and name.startswith(_SEPARATOR):
        kept = name[len(_SEPARATOR) :]
    elif is_admin and _SEPARATOR in name:
        kept = name
    elif name.startswith(ANONYMOUS):
        kept = f"{ANONYMOUS}{user}{_SEPARATOR}{name[len(ANONYMOUS) :]}"
    else:
        kept = f"{user}{_SEPARATOR}{name}"
    if not 0 < len(kept.encode()) <= bytes_max:
        raise InvalidInput(f"{name!r} is kept as {kept!r}, and names have 1 to {bytes_max} bytes: use a shorter one")
    return kept


def owner_of(kept: str) -> str:
    """Whose name this is; empty for nobody's.

    >>> owner_of("alice:etl"), owner_of("~alice:7"), owner_of("etl")
    ('alice', 'alice', '')
    """
    owner, separator, _ = kept.removeprefix(ANONYMOUS).partition(_SEPARATOR)
    return owner if separator else ""


def said_name(user: str, kept: str, *, is_admin: bool = False) -> str:
    """The name as this user says it.

    >>> said_name("alice", "alice:etl"), said_name("alice", "~alice:7"), said_name("bob", "alice:etl")
    ('etl', '~7', 'alice:etl')
    >>> said_name("root", "etl", is_admin=True)
    ':etl'
    """
    owner = owner_of(kept)
    if owner != user:
        return f"{_SEPARATOR}{kept}" if is_admin and kept and not owner else kept
    mark = ANONYMOUS if kept.startswith(ANONYMOUS) else ""
    return mark + kept[len(mark) + len(user) + len(_SEPARATOR) :]


def owned_token(user: str, token: bytes) -> bytes:
    """The token by which a part is kept that this user has opened.

    >>> owned_token("alice", bytes(16)) == owned_token("bob", bytes(16))
    False
    """
    mixed = hashlib.sha256(b"part\0" + user.encode() + b"\0" + token).digest()
    return mixed[: PART_TOKEN_BYTES - _TAG_BYTES] + owner_tag(user)


def owner_tag(user: str) -> bytes:
    """How all tokens end that are kept of this user."""
    return hashlib.sha256(b"owner\0" + user.encode()).digest()[:_TAG_BYTES]
