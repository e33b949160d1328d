"""Under which keys an object's records stand in the log.

```
\\x00ithaca/object/<name>      commands and checks: what every replica of the object applies, in order
\\x00ithaca/snapshot/<name>    a mark for each snapshot that is kept in the log
\\x00ithaca/chunk/<name>       the bytes of those snapshots
\\x00ithaca/objects            which objects there are, and up to where each of them needs the log no more
\\x00ithaca/version/<name>/    versions of objects: the name of the object follows, and the value is the caller's
```
"""

from typing import Final

from ithaca.model.errors import InvalidInput
from ithaca.objects.limits import OBJECT_NAME_BYTES_MAX

CATALOGUE_KEY: Final = b"\x00ithaca/objects"


def checked_name(name: str) -> str:
    """A name that an object may have.

    >>> checked_name("bank")
    'bank'
    """
    if not isinstance(name, str) or not 0 < len(name.encode()) <= OBJECT_NAME_BYTES_MAX or "/" in name:
        raise InvalidInput(
            f"an object's name has 1 to {OBJECT_NAME_BYTES_MAX} bytes and no slash, not {name!r}: "
            'write name="bank" or its like'
        )
    return name


def command_key(name: str) -> bytes:
    return b"\x00ithaca/object/" + name.encode()


def mark_key(name: str) -> bytes:
    return b"\x00ithaca/snapshot/" + name.encode()


def chunk_key(name: str) -> bytes:
    return b"\x00ithaca/chunk/" + name.encode()


def version_prefix(name: str) -> bytes:
    return b"\x00ithaca/version/" + name.encode() + b"/"
