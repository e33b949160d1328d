"""Arguments that are flags, whole numbers, text, lists or things of one class, checked where they enter.

Each check returns the argument, or raises `InvalidInput` that names it, its value and what is wanted. Durations and
sizes are read by `units`, paths by `paths`, addresses by `addresses`; positions and filters are checked by
`runtime.checks`.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeGuard, TypeVar

from ithaca.model.errors import InvalidInput

Item = TypeVar("Item")
Thing = TypeVar("Thing")

SINGLE: Final = (bytes, bytearray, memoryview, str)
"""What can be iterated, and is one thing all the same."""


def is_whole(value: object) -> TypeGuard[int]:
    """Whether this is an integer, and no truth value.

    >>> is_whole(3), is_whole(True), is_whole(3.0)
    (True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool)


def whole(value: object, what: str, low: int = 0, high: int | None = None) -> int:
    """A whole number from `low` on, up to `high` if that is given.

    >>> whole(2, "shards", 1)
    2
    """
    if not is_whole(value) or value < low or (high is not None and value > high):
        bounds = f"from {low} on" if high is None else f"from {low} to {high}"
        raise InvalidInput(f"{what} is {_shown(value)}: use a whole number {bounds}")
    return value


def flag(value: object, what: str) -> bool:
    """True or False, and nothing that merely counts as one: `"no"` would count as True.

    >>> flag(False, "masking")
    False
    """
    if not isinstance(value, bool):
        raise InvalidInput(f"{what} is {_shown(value)}: use True or False")
    return value


def text(value: object, what: str, wanted: str) -> str:
    """Text; `wanted` says which.

    >>> text("importer", "name", "the name of a session")
    'importer'
    """
    return instance(value, str, what, wanted)


def instance(value: object, of: type[Thing] | tuple[type[Thing], ...], what: str, wanted: str) -> Thing:
    """A thing of this class, or of one of these; `wanted` says what to use.

    >>> instance(b"a", bytes, "key", "bytes")
    b'a'
    """
    if not isinstance(value, of):
        raise InvalidInput(f"{what} is {_shown(value)}: use {wanted}")
    return value


def choice(value: object, what: str, choices: Sequence[str]) -> str:
    """One of these words.

    >>> choice("os", "durability", ("fsync", "os"))
    'os'
    """
    if not isinstance(value, str) or value not in choices:
        raise InvalidInput(f"{what} is {_shown(value)}: use one of {', '.join(choices)}")
    return value


def items(value: Iterable[Item], what: str, wanted: str) -> Iterable[Item]:
    """Something to iterate that is not one text or one buffer; `wanted` says what to use.

    >>> items([b"a"], "values", "a list")
    [b'a']
    """
    if isinstance(value, SINGLE):
        raise InvalidInput(f"{what} is one {type(value).__name__}, not a list of them: use {wanted}")
    if not is_iterable(value):
        raise InvalidInput(f"{what} is {_shown(value)}: use {wanted}")
    return value


def is_iterable(value: object) -> bool:
    """Whether it can be iterated.

    >>> is_iterable([]), is_iterable(5)
    (True, False)
    """
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def function(value: Thing, what: str) -> Thing:
    """What can be called.

    >>> function(len, "callback")
    <built-in function len>
    """
    if not callable(value):
        raise InvalidInput(f"{what} is {_shown(value)}: use a function")
    return value


def optional_function(value: Thing, what: str) -> Thing:
    """The same, or None.

    >>> optional_function(None, "advance")
    """
    return value if value is None else function(value, what)


def _shown(value: object) -> str:
    """The value, as much of it as a message has room for."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
