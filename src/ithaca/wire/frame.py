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
from collections.abc import Sequence
from typing import Final, NamedTuple

from ithaca.model.errors import BatchTooLarge, InvalidInput, ProtocolError
from ithaca.model.limits import (
    CACHED_BATCH_BYTES_MAX,
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES_MAX,
    HELLO_BYTES_MAX,
    RECEIVE_BLOCK_BYTES,
)
from ithaca.model.records import Buffer
from ithaca.wire.blocks import Block, give_block, take_block

PREFIX_BYTES: Final = 16
ROOM_BYTES_MIN: Final = 4096
"""A read into less than this is not worth its system call."""
COPIED_BYTES_MAX: Final = CACHED_BATCH_BYTES_MAX
"""A payload up to this is copied, so that whoever keeps it, as a lane's cache does, does not keep a whole block."""
_PREFIX = struct.Struct("<IBBHII")
_ZEROS = tuple(map(bytes, range(8)))
"""Paddings."""


class Frame(NamedTuple):
    """One frame; a large payload is a view of the block it came in, and keeps that alive."""

    type: int
    flags: int
    correlation: int
    header: bytes
    payload: Buffer = b""


def encode(frame: Frame, payload: Sequence[Buffer] | None = None) -> list[Buffer]:
    """The frame as buffers to be written one after the other; a payload in parts is passed on as it is."""
    if payload is None:
        payload = (frame.payload,) if len(frame.payload) else ()
    header_bytes, payload_bytes = len(frame.header), sum(map(len, payload))
    assert payload_bytes % 8 == 0, "payloads are whole batches"
    if header_bytes > FRAME_HEADER_BYTES_MAX:
        raise InvalidInput(f"a message of {header_bytes} bytes exceeds {FRAME_HEADER_BYTES_MAX}: say less at once")
    padding = -header_bytes & 7
    length = PREFIX_BYTES + header_bytes + padding + payload_bytes
    if length > FRAME_BYTES_MAX:
        raise BatchTooLarge(f"a frame of {length} bytes exceeds {FRAME_BYTES_MAX}: send it in parts")
    prefix = _PREFIX.pack(length, frame.type, frame.flags, header_bytes, frame.correlation, 0)
    front = b"".join((prefix, frame.header, bytes(padding)))
    return [front, *payload]


class FrameDecoder:
    """Frames from bytes that arrive cut at any place, received straight into blocks: `buffer`, then `received`.

    Until `greeted` is called no frame may exceed `HELLO_BYTES_MAX`, so a peer waits for the answer to its
    hello before it sends more than that. After the first malformed frame nothing is decoded any more.
    A block is handed out with the payloads in it, and never written there again while anybody has one; memory that
    nothing arrived in is not touched, however long a frame says it is.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.error: ProtocolError | None = None
        """What was wrong with the stream, known as soon as it was received."""
        self._frame_bytes_max = frame_bytes_max
        self._limit = min(HELLO_BYTES_MAX, frame_bytes_max)
        self._memory: Block | None = None
        self._block = _NOTHING
        """All of the memory."""
        self._start = self._end = 0
        self._wanted = PREFIX_BYTES
        self._last_large_bytes = 0
        """How long the last frame was, if no usual block has room for it."""
        self._large_bytes = 0
        """The same, if the next one is taken to be like it: it comes into a block of that length, and is not moved."""
        self.are_alike = False
        """Whether one large frame says so much of the next one; else it takes two of the same length."""
        self._lent = False

    def greeted(self) -> None:
        """The peer's hello was accepted: from now on frames may be large."""
        self._limit = self._frame_bytes_max

    @property
    def is_inside(self) -> bool:
        """Whether a frame has begun to arrive and is not complete."""
        return self._end > self._start

    @property
    def unfinished(self) -> tuple[int, int]:
        """How long the frame is that has begun to arrive, as far as that is known, and what is here of it."""
        begun = self._end - self._start
        return (self._wanted, begun) if begun else (0, 0)

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._memory is None:
            self._renew(max(RECEIVE_BLOCK_BYTES, self._large_bytes), begun=0)
        return self._block[self._end :]

    def received(self, count: int) -> list[Frame]:
        """The frames that `count` more bytes in `buffer` complete.

        Well-formed frames before a malformed one are returned; `error` is set then, and every later call
        raises it. It is raised at once when there are none.
        """
        frames: list[Frame] = []
        self._advance(count, frames)
        if self.error is not None and not frames:
            raise self.error.with_traceback(None)
        return frames

    def feed(self, data: Buffer) -> list[Frame]:
        """`received`, for bytes that arrived elsewhere; they are copied."""
        frames: list[Frame] = []
        view = memoryview(data)
        while len(view) and self.error is None:
            room = self.buffer()
            part = view[: len(room)]
            room[: len(part)] = part
            view = view[len(part) :]
            self._advance(len(part), frames)
        return frames or self.received(0)

    def _advance(self, count: int, frames: list[Frame]) -> None:
        if self.error is None:
            self._end += count
            try:
                self._wanted = self._decode(frames)
                self._make_room(self._wanted)
            except ProtocolError as error:
                self.error = error
                self._renew(ROOM_BYTES_MIN, begun=0)

    def _decode(self, frames: list[Frame]) -> int:
        """Take the frames that are whole; returns how long the next one is, as far as that is known."""
        block, end = self._block, self._end
        while end - (start := self._start) >= PREFIX_BYTES:
            length, kind, flags, header_bytes, correlation, reserved = _PREFIX.unpack_from(block, start)
            self._check(length, header_bytes, reserved)
            stop = start + length
            if stop > end:
                return int(length)
            header, payload = self._split(start + PREFIX_BYTES, header_bytes, stop)
            frames.append(Frame(kind, flags, correlation, header, payload))
            self._start = stop
            if length > RECEIVE_BLOCK_BYTES or self._last_large_bytes:
                self._expect_like(length)
        return PREFIX_BYTES

    def _expect_like(self, length: int) -> None:
        """A frame of this length was whole; what does not come into a usual block may be followed by its like."""
        large_bytes = length if length > RECEIVE_BLOCK_BYTES else 0
        self._large_bytes = large_bytes if self.are_alike or large_bytes == self._last_large_bytes else 0
        self._last_large_bytes = large_bytes

    def _check(self, length: int, header_bytes: int, reserved: int) -> None:
        if length > self._limit:
            raise ProtocolError(f"a frame of {length} bytes exceeds the {self._limit} allowed here")
        if length < PREFIX_BYTES or length % 8:
            raise ProtocolError(f"a frame's length of {length} is below {PREFIX_BYTES} or no multiple of 8")
        if reserved:
            raise ProtocolError(f"a frame's reserved field is {reserved}, not 0")
        if header_bytes > FRAME_HEADER_BYTES_MAX or PREFIX_BYTES + header_bytes > length:
            raise ProtocolError(f"a header of {header_bytes} bytes does not fit into a frame of {length}")

    def _split(self, header_at: int, header_bytes: int, stop: int) -> tuple[bytes, Buffer]:
        """The header and the payload of a whole frame whose prefix was checked."""
        block, padding = self._block, -header_bytes & 7
        payload_at = header_at + header_bytes + padding
        header = bytes(block[header_at:payload_at])
        if padding:
            if not header.endswith(_ZEROS[padding]):
                raise ProtocolError("the padding behind a frame's header is not zero")
            header = header[:header_bytes]
        if stop == payload_at:
            return header, b""
        if stop - payload_at <= COPIED_BYTES_MAX:
            return header, bytes(block[payload_at:stop])
        self._lent = True
        return header, block[payload_at:stop].toreadonly()

    def _make_room(self, wanted: int) -> None:
        """Have the frame that has begun, of `wanted` bytes, fit into the block, and the next read be worth it."""
        begun, room = self._end - self._start, len(self._block) - self._end
        if begun == 0 and (self._large_bytes or len(self._block) > RECEIVE_BLOCK_BYTES):
            self._let_go()  # a connection that is idle, or says little, keeps no large block
        elif begun == 0 and not self._lent:
            self._start = self._end = 0
        elif room >= wanted - begun and (room >= ROOM_BYTES_MIN or begun > ROOM_BYTES_MIN):
            pass  # where much has come of a frame, one small read costs less than moving it
        elif self._lent or wanted > len(self._block):
            self._renew(max(RECEIVE_BLOCK_BYTES, wanted), begun)
        else:
            self._block[:begun] = self._block[self._start : self._end]
            self._start, self._end = 0, begun

    def _renew(self, size: int, begun: int) -> None:
        """Go on in another block, with the first `begun` bytes of the next frame."""
        memory = take_block(size)
        block = memoryview(memory)[:size]  # type: ignore[arg-type]
        block[:begun] = self._block[self._start : self._start + begun]
        self._let_go()
        self._memory, self._block, self._end = memory, block, begun

    def _let_go(self) -> None:
        """Have no block until something arrives."""
        memory, self._memory, self._block = self._memory, None, _NOTHING
        self._start = self._end = 0
        self._lent = False
        if memory is not None:
            give_block(memory)


_NOTHING: Final = memoryview(b"")
