"""Paths as people write them: text, or anything that `os.fspath` takes, with `~` for the home directory."""

import os
from typing import Any

from ithaca.model.errors import InvalidInput

AnyPath = str | bytes | os.PathLike[Any]
"""Whatever `os.fspath` takes; `~` at its beginning is the home directory."""


def local_path(path: object, what: str = "path") -> str:
    """The path as text, with the home directory filled in; `InvalidInput` when it is none.

    >>> local_path("./events")
    './events'
    """
    try:
        text = os.fsdecode(os.fspath(path))  # type: ignore[call-overload]
    except TypeError:
        raise InvalidInput(f'{what} is {path!r}: use text, such as "./events", or a pathlib.Path') from None
    if not text or "\0" in text:
        raise InvalidInput(f'{what} is {text!r}: name a directory, such as "./events"')
    return os.path.expanduser(text)
