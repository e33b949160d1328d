"""What comes out of a decoder of msgpack or JSON that is fed bytes from outside."""

from typing import Final

import msgspec

UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""Not well-formed or of another type; text that is none; nested without end. `msgspec` raises all three."""
