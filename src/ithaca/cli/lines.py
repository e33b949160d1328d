"""Bytes from files and pipes become values: whole, or line by line as they arrive.

A slow pipe must not wait for a full buffer: `ready` tells whether more input is there already, and the
producer syncs what it has when it is not.
"""

import os
import select
from collections.abc import Iterator
from typing import BinaryIO

from ithaca.model.errors import RecordTooLarge
from ithaca.model.limits import READ_CHUNK_BYTES, RECORD_BYTES_MAX


def read_lines(source: BinaryIO) -> Iterator[list[bytes]]:
    r"""The lines that each read of `source` completed, without their newlines; the last may lack one.

    >>> import tempfile
    >>> with tempfile.TemporaryFile() as file:
    ...     position = file.write(b"a\n\nb"), file.seek(0)
    ...     list(read_lines(file))
    [[b'a', b''], [b'b']]
    """
    descriptor = source.fileno()
    parts: list[bytes] = []  # of the line that no newline has ended yet
    part_bytes = 0
    while chunk := os.read(descriptor, READ_CHUNK_BYTES):
        first, *rest = chunk.split(b"\n")
        parts.append(first)
        part_bytes += len(first)
        if part_bytes > RECORD_BYTES_MAX:
            raise RecordTooLarge(
                f"a line is longer than {RECORD_BYTES_MAX} bytes, the most a record can hold; split it up"
            )
        if rest:
            last = rest.pop()
            yield [b"".join(parts), *rest]
            parts, part_bytes = [last], len(last)
    if part_bytes:
        yield [b"".join(parts)]


def read_whole(source: BinaryIO) -> bytes:
    """All of `source` as one value; reads no more than it takes to see that it is too large."""
    return source.read(RECORD_BYTES_MAX + 1)


def ready(source: BinaryIO) -> bool:
    """Whether a read would return at once."""
    readable, _, _ = select.select([source], [], [], 0)
    return bool(readable)
