"""What a decoder of outside bytes promises, as something that can be run with any bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ithaca.model.errors import IthacaError
from ithaca.model.limits import MIB

T = TypeVar("T")

NESTED = b"\x91" * 5000
"""A msgpack array in an array in an array."""
NO_TEXT = b"\x92\xa1\xff\x01"
"""A msgpack array that begins with a text that is not UTF-8."""


def _as_they_are(data: bytes) -> bytes:
    return data


@dataclass(frozen=True, slots=True)
class Target(Generic[T]):
    """One decoder: for any bytes it gives a value or raises one of `refusals`, and nothing else comes out of it.

    Where there is an encoder, what was decoded is encoded and decoded again, and must be the same.
    """

    name: str
    decode: Callable[[bytes], T]
    refusals: tuple[type[IthacaError], ...]
    seeds: tuple[bytes, ...]
    """Bytes that are accepted, to be mutated."""
    encode: Callable[[T], bytes] | None = None
    repair: Callable[[bytes], bytes] = _as_they_are
    """The bytes with checksums, magics and places made right, so that mutations reach what lies behind those."""
    memory_bytes_max: int = MIB
    """What decoding a few kilobytes may allocate, whatever lengths they claim."""
    regressions: tuple[bytes, ...] = ()
    """Bytes that once broke the contract; accepted or not, they are tried before any others."""

    def accepts(self, data: bytes) -> bool:
        """Whether the bytes are decoded; whatever the contract does not allow is raised."""
        try:
            found = self.decode(data)
        except self.refusals:
            return False
        if self.encode is not None:
            assert self.decode(self.encode(found)) == found, "what was decoded is another value when it comes back"
        return True
