"""Where the token of a client comes from. What is read is never shown: not in an error, not in a log."""

import os
import stat
from typing import Final

from ithaca.model.errors import InvalidInput
from ithaca.model.paths import AnyPath, local_path

TOKEN: Final = "ITHACA_TOKEN"
TOKEN_FILE: Final = "ITHACA_TOKEN_FILE"
TOKEN_CHARS_MAX: Final = 512


def checked_token(token: str | None) -> str:
    """The argument of `connect`, else what `ITHACA_TOKEN` says, else what is in the file that `ITHACA_TOKEN_FILE` has;
    empty when nothing says it.

    >>> checked_token(7)
    Traceback (most recent call last):
        ...
    ithaca.model.errors.InvalidInput: token is no text of at most 512 characters: use what ithaca user add has shown
    """
    if token is None:
        token = os.environ.get(TOKEN) or None
    if token is None:
        path = os.environ.get(TOKEN_FILE)
        return read_token(path) if path else ""
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or len(token) > TOKEN_CHARS_MAX:
        raise InvalidInput(
            f"token is no text of at most {TOKEN_CHARS_MAX} characters: use what ithaca user add has shown"
        )
    return token


def read_token(path: AnyPath) -> str:
    """The token in a file that its owner alone can read; `InvalidInput` says what is wrong with the file."""
    name = local_path(path, "token file")
    try:
        with open(name, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(TOKEN_CHARS_MAX + 1)
    except OSError as error:
        raise InvalidInput(f"the token cannot be read from {name}: {error.strerror}") from None
    if mode & 0o077:
        raise InvalidInput(f"others can read the token in {name}, which has mode {mode:04o}: chmod 600 {name}")
    try:
        text = data.decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable() or len(data) > TOKEN_CHARS_MAX:
        raise InvalidInput(f"{name} holds no token: put what ithaca user add has shown there, on one line")
    return text


def write_token(path: AnyPath, token: str) -> None:
    """Put a token into a new file that its owner alone can read; `InvalidInput` if there is one already."""
    name = local_path(path, "token file")
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidInput(f"the token cannot be written to {name}: {error.strerror}") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
