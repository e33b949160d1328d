"""Text, lists, functions and things of one class."""

from collections.abc import Iterable
from typing import Final, TypeVar

from ithaca.model.arguments.values import shown
from ithaca.model.errors import InvalidInput

Item = TypeVar("Item")
Thing = TypeVar("Thing")

SINGLE: Final = (bytes, bytearray, memoryview, str)
"""What can be iterated, and is one thing all the same."""


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
        raise InvalidInput(f"{what} is {shown(value)}: use {wanted}")
    return value


def items(value: Iterable[Item], what: str, wanted: str) -> Iterable[Item]:
    """Something to iterate that is not one text or one buffer; `wanted` says what to use.

    >>> items([b"a"], "values", "a list")
    [b'a']
    """
    if isinstance(value, SINGLE):
        raise InvalidInput(f"{what} is one {type(value).__name__}, not a list of them: use {wanted}")
    if not is_iterable(value):
        raise InvalidInput(f"{what} is {shown(value)}: use {wanted}")
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
        raise InvalidInput(f"{what} is {shown(value)}: use a function")
    return value


def optional_function(value: Thing, what: str) -> Thing:
    """The same, or None.

    >>> optional_function(None, "advance")
    """
    return value if value is None else function(value, what)
