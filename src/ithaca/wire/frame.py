"""Frames: how messages and batches share a connection. No sockets here: bytes in, frames out.

```
 0 length u32: of the whole frame, these 16 bytes included; a multiple of 8
 4 type u8 | 5 flags u8
 6 header_bytes u16: of the header, without its padding
 8 correlation u32: an answer carries the number of its request
12 reserved u32 = 0
16 header: msgpack, zero-padded to 8
   payload: to the end of the frame; none, or batches untouched
```

All little-endian. Every part is a multiple of 8, so a batch is aligned wherever it lies. What types and
flags mean, and what a header says, is decided by those who use frames.
"""

import struct
from typing import Final, NamedTuple

from ithaca.model.errors import BatchTooLarge, InvalidInput, ProtocolError
from ithaca.model.limits import FRAME_BYTES_MAX, FRAME_HEADER_BYTES_MAX, HELLO_BYTES_MAX
from ithaca.model.records import Buffer

PREFIX_BYTES: Final = 16
_PREFIX = struct.Struct("<IBBHII")


class Frame(NamedTuple):
    """One frame; the payload is a view of the bytes that were fed, and keeps them alive."""

    type: int
    flags: int
    correlation: int
    header: bytes
    payload: Buffer = b""


def encode(frame: Frame) -> list[Buffer]:
    """The frame as buffers to be written one after the other; the payload is passed on as it is."""
    header_bytes, payload_bytes = len(frame.header), len(frame.payload)
    assert payload_bytes % 8 == 0, "payloads are whole batches"
    if header_bytes > FRAME_HEADER_BYTES_MAX:
        raise InvalidInput(f"a message of {header_bytes} bytes exceeds {FRAME_HEADER_BYTES_MAX}: say less at once")
    padding = -header_bytes & 7
    length = PREFIX_BYTES + header_bytes + padding + payload_bytes
    if length > FRAME_BYTES_MAX:
        raise BatchTooLarge(f"a frame of {length} bytes exceeds {FRAME_BYTES_MAX}: send it in parts")
    prefix = _PREFIX.pack(length, frame.type, frame.flags, header_bytes, frame.correlation, 0)
    front = b"".join((prefix, frame.header, bytes(padding)))
    return [front, frame.payload] if payload_bytes else [front]


class FrameDecoder:
    """Frames from bytes that arrive cut at any place.

    Until `greeted` is called no frame may exceed `HELLO_BYTES_MAX`, so a peer waits for the answer to its
    hello before it sends more than that. After the first malformed frame nothing is decoded any more.
    Holds less than one frame, and allocates for it only what has arrived.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.error: ProtocolError | None = None
        """What was wrong with the stream, known as soon as it was fed."""
        self._frame_bytes_max = frame_bytes_max
        self._limit = min(HELLO_BYTES_MAX, frame_bytes_max)
        self._partial = bytearray()

    def greeted(self) -> None:
        """The peer's hello was accepted: from now on frames may be large."""
        self._limit = self._frame_bytes_max

    def feed(self, data: Buffer) -> list[Frame]:
        """The frames that end within `data`.

        Well-formed frames before a malformed one are returned; `error` is set then, and the next call
        raises it. It is raised at once when there are none.
        """
        frames: list[Frame] = []
        if self.error is None:
            try:
                self._decode(memoryview(data), frames)
            except ProtocolError as error:
                self.error = error
        if self.error is not None and not frames:
            raise self.error.with_traceback(None)
        return frames

    def _decode(self, data: memoryview, frames: list[Frame]) -> None:
        if self._partial:
            data = data[self._complete(data, frames) :]
        if len(data) >= PREFIX_BYTES:
            # The caller may reuse its memory, and a batch must be aligned: what a whole, immutable
            # `bytes` object is already.
            if not (isinstance(data.obj, bytes) and len(data) == len(data.obj)):
                data = memoryview(bytes(data))
            while len(data) >= PREFIX_BYTES:
                length = self._check(data)
                if len(data) < length:
                    break
                frames.append(_open(data[:length]))
                data = data[length:]
        self._partial += data

    def _complete(self, data: memoryview, frames: list[Frame]) -> int:
        """Go on with the frame that has begun; returns how many bytes it took."""
        taken = self._take(data, PREFIX_BYTES)
        if len(self._partial) < PREFIX_BYTES:
            return taken
        length = self._check(self._partial)
        taken += self._take(data[taken:], length)
        if len(self._partial) == length:
            whole, self._partial = self._partial, bytearray()
            frames.append(_open(memoryview(whole)))
        return taken

    def _take(self, data: memoryview, wanted: int) -> int:
        part = data[: max(0, wanted - len(self._partial))]
        self._partial += part
        return len(part)

    def _check(self, data: Buffer) -> int:
        """The length of the frame whose first bytes are given, once its prefix was found well-formed."""
        length, _, _, header_bytes, _, reserved = _PREFIX.unpack_from(data)
        if length > self._limit:
            raise ProtocolError(f"a frame of {length} bytes exceeds the {self._limit} allowed here")
        if length < PREFIX_BYTES or length % 8:
            raise ProtocolError(f"a frame's length of {length} is below {PREFIX_BYTES} or no multiple of 8")
        if reserved:
            raise ProtocolError(f"a frame's reserved field is {reserved}, not 0")
        if header_bytes > FRAME_HEADER_BYTES_MAX or PREFIX_BYTES + header_bytes > length:
            raise ProtocolError(f"a header of {header_bytes} bytes does not fit into a frame of {length}")
        return int(length)


def _open(frame: memoryview) -> Frame:
    """The parts of a whole frame whose prefix was checked."""
    _, kind, flags, header_bytes, correlation, _ = _PREFIX.unpack_from(frame)
    header_end = PREFIX_BYTES + header_bytes
    payload_at = header_end + (-header_bytes & 7)
    if any(frame[header_end:payload_at]):
        raise ProtocolError("the padding behind a frame's header is not zero")
    return Frame(kind, flags, correlation, bytes(frame[PREFIX_BYTES:header_end]), frame[payload_at:])
