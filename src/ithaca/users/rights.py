"""Whether somebody may do something."""

from collections.abc import Iterable

from ithaca.model.errors import NotAllowed
from ithaca.model.security.users import RIGHTS, Grant, Right

EVERYTHING = Grant(RIGHTS)
"""What the operator may do."""


def check_right(user: str, grant: Grant, right: Right) -> None:
    """`NotAllowed` unless the user has the right, for the whole log.

    >>> check_right("alice", Grant(("read",)), "trim")
    Traceback (most recent call last):
        ...
    ithaca.model.errors.NotAllowed: user alice has no right to trim: ithaca user grant alice trim gives it
    """
    if right in grant.rights:
        return
    prefixes = prefixes_of(grant, right)
    if prefixes:
        raise NotAllowed(
            f"user {user} may {right} by prefix alone, {shown_prefixes(prefixes)}, and this takes the right for all "
            f"keys: ithaca user grant {user} {right} gives it",
            right=right,
        )
    raise not_allowed(user, right)


def not_allowed(user: str, right: Right) -> NotAllowed:
    """That somebody has no such right at all."""
    return NotAllowed(
        f"user {user} has no right to {right}: ithaca user grant {user} {right} gives it"
        if user
        else f"this takes the right to {right}, and nobody said who is asking: connect with a token or a certificate",
        right=right,
    )


def check_some(user: str, grant: Grant, right: Right) -> tuple[bytes, ...] | None:
    """The prefixes by which the user has the right; None for all keys, `NotAllowed` for none.

    >>> check_some("alice", Grant(("read",)), "read"), check_some("alice", Grant((), (b"a/",)), "read")
    (None, (b'a/',))
    """
    if right in grant.rights:
        return None
    prefixes = prefixes_of(grant, right)
    if not prefixes:
        raise not_allowed(user, right)
    return prefixes


def prefixes_of(grant: Grant, right: Right) -> tuple[bytes, ...]:
    """The prefixes by which a right is given."""
    if right == "read":
        return grant.read_prefixes
    return grant.append_prefixes if right == "append" else ()


def outside(user: str, right: Right, prefixes: Iterable[bytes], key: bytes | None) -> NotAllowed:
    """That a key is none of those that the user may read, or append."""
    shown = "a record without a key" if key is None else f"the key {key[:64]!r}"
    named = shown_prefixes(prefixes)
    return NotAllowed(
        f"user {user} may {right} by prefix alone, {named}, and this is {shown}", right=right, prefix=named
    )


def shown_prefixes(prefixes: Iterable[bytes]) -> str:
    """Prefixes for a message.

    >>> shown_prefixes([b"a/", b"b/"])
    "b'a/', b'b/'"
    """
    return ", ".join(map(repr, prefixes))
