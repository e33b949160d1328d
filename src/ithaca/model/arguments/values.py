"""Flags, whole numbers and words."""

from collections.abc import Sequence
from typing import TypeGuard

from ithaca.model.errors import InvalidInput


def is_integer(value: object) -> TypeGuard[int]:
    """Whether this is an integer, and no truth value.

    >>> is_integer(3), is_integer(True), is_integer(3.0)
    (True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool)


def whole(value: object, what: str, low: int = 0, high: int | None = None) -> int:
    """A whole number from `low` on, up to `high` if that is given.

    >>> whole(2, "shards", 1)
    2
    """
    if not is_integer(value) or value < low or (high is not None and value > high):
        bounds = f"from {low} on" if high is None else f"from {low} to {high}"
        raise InvalidInput(f"{what} is {shown(value)}: use a whole number {bounds}")
    return value


def flag(value: object, what: str) -> bool:
    """True or False, and nothing that merely counts as one: `"no"` would count as True.

    >>> flag(False, "masking")
    False
    """
    if not isinstance(value, bool):
        raise InvalidInput(f"{what} is {shown(value)}: use True or False")
    return value


def choice(value: object, what: str, choices: Sequence[str]) -> str:
    """One of these words.

    >>> choice("os", "durability", ("fsync", "os"))
    'os'
    """
    if not isinstance(value, str) or value not in choices:
        raise InvalidInput(f"{what} is {shown(value)}: use one of {', '.join(choices)}")
    return value


def shown(value: object) -> str:
    """The value, as much of it as a message has room for."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
