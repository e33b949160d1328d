"""The frame codec: whole input and any other cut of it agree, and broken bytes stay outside."""

import contextlib
import itertools
import resource
import tracemalloc
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ithaca.model.errors import BatchTooLarge, InvalidInput, ProtocolError
from ithaca.model.limits import (
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES_MAX,
    HELLO_BYTES_MAX,
    KIB,
    MIB,
    RECEIVE_BLOCK_BYTES,
)
from ithaca.model.records import Buffer
from ithaca.wire.frame import COPIED_BYTES_MAX, PREFIX_BYTES, ROOM_BYTES_MIN, Frame, FrameDecoder, encode

GOLDEN = bytes.fromhex("2000000003010400090000000000000081a1610100000000" + "3132333435363738")


def wire(*frames: Frame) -> bytes:
    return b"".join(bytes(buffer) for frame in frames for buffer in encode(frame))


def plain(frame: Frame) -> Frame:
    """The frame with its payload as bytes, to be compared."""
    return frame._replace(payload=bytes(frame.payload))


def greeted(frame_bytes_max: int = FRAME_BYTES_MAX) -> FrameDecoder:
    decoder = FrameDecoder(frame_bytes_max)
    decoder.greeted()
    return decoder


def decode(chunks: list[bytes]) -> tuple[list[Frame], str | None]:
    """All frames of a stream that comes in these chunks, and what was wrong with it."""
    decoder = greeted()
    frames: list[Frame] = []
    for chunk in chunks:
        try:
            frames += map(plain, decoder.feed(chunk))
        except ProtocolError:
            break
    return frames, None if decoder.error is None else str(decoder.error)


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[low:high] for low, high in itertools.pairwise(bounds)]


frames_strategy = st.lists(
    st.builds(
        Frame,
        type=st.integers(0, 255),
        flags=st.integers(0, 255),
        correlation=st.integers(0, 2**32 - 1),
        header=st.binary(max_size=40),
        payload=st.integers(0, 9).flatmap(lambda words: st.binary(min_size=8 * words, max_size=8 * words)),
    ),
    max_size=6,
)


def test_golden_bytes() -> None:
    frame = Frame(type=3, flags=1, correlation=9, header=b"\x81\xa1a\x01", payload=b"12345678")
    assert wire(frame) == GOLDEN
    assert [plain(found) for found in greeted().feed(GOLDEN)] == [frame]


@given(frames=frames_strategy, places=st.lists(st.integers(0, 2000), max_size=12))
@settings(max_examples=150, deadline=None)
def test_any_cut_of_the_stream_gives_the_same_frames(frames: list[Frame], places: list[int]) -> None:
    stream = wire(*frames)
    assert decode([stream]) == (frames, None)
    assert decode(cut(stream, places)) == (frames, None)
    assert decode([stream[at : at + 1] for at in range(len(stream))]) == (frames, None)


@given(
    frames=frames_strategy,
    garbage=st.binary(max_size=80),
    flips=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 7)), max_size=3),
    places=st.lists(st.integers(0, 2000), max_size=12),
)
@settings(max_examples=200, deadline=None)
def test_any_cut_of_a_broken_stream_gives_the_same_frames_and_error(
    frames: list[Frame], garbage: bytes, flips: list[tuple[int, int]], places: list[int]
) -> None:
    stream = bytearray(wire(*frames) + garbage)
    for place, bit in flips:
        if stream:
            stream[place % len(stream)] ^= 1 << bit
    whole = decode([bytes(stream)])
    assert decode(cut(bytes(stream), places)) == whole
    assert decode([bytes(stream[at : at + 1]) for at in range(len(stream))]) == whole


@given(garbage=st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_garbage_gives_frames_or_a_protocol_error(garbage: bytes) -> None:
    frames, _ = decode([garbage])
    assert wire(*frames) == garbage[: len(wire(*frames))]


@pytest.mark.parametrize(
    ("at", "byte", "message"),
    [
        (0, 0x21, "length of 33"),
        (0, 0x08, "length of 8"),
        (0, 0x00, "length of 0"),
        (3, 0x7F, "exceeds the"),
        (6, 0x11, "header of 17 bytes does not fit into a frame of 32"),
        (7, 0xFF, "header of 65284 bytes does not fit"),
        (12, 0x01, "reserved field is 1"),
        (15, 0x80, "reserved field is 2147483648"),
        (23, 0x01, "padding"),
    ],
)
def test_what_is_wrong_is_named_and_the_decoder_stays_dead(at: int, byte: int, message: str) -> None:
    broken = bytearray(GOLDEN)
    broken[at] = byte
    decoder = greeted()
    with pytest.raises(ProtocolError, match=message):
        decoder.feed(bytes(broken))
    for after in (b"", GOLDEN):
        with pytest.raises(ProtocolError, match=message):
            decoder.feed(after)


def test_frames_before_a_broken_one_are_delivered_first() -> None:
    decoder = greeted()
    assert len(decoder.feed(GOLDEN * 2 + b"\xff" * 16)) == 2
    assert decoder.error is not None
    with pytest.raises(ProtocolError):
        decoder.feed(b"")


def test_before_the_greeting_frames_are_small() -> None:
    payload = bytes(HELLO_BYTES_MAX - PREFIX_BYTES)
    largest, larger = Frame(1, 0, 0, b"", payload), Frame(1, 0, 0, b"", payload + bytes(8))
    assert len(FrameDecoder().feed(wire(largest))) == 1
    with pytest.raises(ProtocolError, match=f"{HELLO_BYTES_MAX + 8} bytes exceeds the {HELLO_BYTES_MAX}"):
        FrameDecoder().feed(wire(larger)[:PREFIX_BYTES])
    decoder = FrameDecoder()
    decoder.feed(wire(largest))
    decoder.greeted()
    assert len(decoder.feed(wire(larger))) == 1


def test_the_limit_given_is_the_limit_after_the_greeting() -> None:
    decoder = greeted(KIB)
    assert len(decoder.feed(wire(Frame(1, 0, 0, b"", bytes(KIB - PREFIX_BYTES))))) == 1
    with pytest.raises(ProtocolError, match="exceeds the 1024"):
        decoder.feed(wire(Frame(1, 0, 0, b"", bytes(KIB)))[:PREFIX_BYTES])


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def test_a_length_touches_no_memory() -> None:
    """The largest frame is announced, and 1 KiB of it comes: that touches a page, which may be a huge one."""
    prefix = FRAME_BYTES_MAX.to_bytes(4, "little") + bytes(12)
    decoders = [greeted() for _ in range(4)]
    before = resident_bytes()
    for decoder in decoders:
        assert decoder.feed(prefix) + decoder.feed(bytes(KIB)) == []
        assert len(decoder.buffer()) == FRAME_BYTES_MAX - PREFIX_BYTES - KIB
    assert resident_bytes() - before < len(decoders) * 4 * MIB


def test_memory_is_one_frame_and_a_block() -> None:
    stream = wire(Frame(1, 0, 0, b"header", bytes(4 * MIB)))
    decoder = greeted()
    tracemalloc.start()
    found = [len(decoder.feed(stream[at : at + 64 * KIB])) for _ in range(3) for at in range(0, len(stream), 64 * KIB)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(found) == 3
    assert peak < 6 * MIB


@pytest.mark.parametrize("first", [0, 1, 5, 16, 31, 33, 40])
def test_payloads_are_aligned_wherever_the_stream_is_cut(first: int) -> None:
    stream = wire(*[Frame(1, 0, number, b"abc", b"payload " * 3) for number in range(5)])
    decoder = greeted()
    frames = decoder.feed(stream[:first]) + decoder.feed(memoryview(stream)[first:])
    assert [frame.correlation for frame in frames] == list(range(5))
    assert [np.frombuffer(frame.payload, np.uint8).ctypes.data % 8 for frame in frames] == [0] * 5


def address(payload: Buffer) -> int:
    return int(np.frombuffer(payload, np.uint8).ctypes.data)


def receive(decoder: FrameDecoder, stream: bytes, sizes: Iterable[int]) -> list[Frame]:
    """What comes of a stream that a socket delivers in these sizes, or as much as there is room for."""
    frames: list[Frame] = []
    at = 0
    for size in sizes:
        if at == len(stream) or decoder.error is not None:
            break
        room = decoder.buffer()
        part = stream[at : at + min(size, len(room))]
        room[: len(part)] = part
        with contextlib.suppress(ProtocolError):
            frames += decoder.received(len(part))
        at += len(part)
    return frames


def test_a_large_payload_stays_where_it_was_received() -> None:
    stream = wire(Frame(1, 0, 0, b"abc", bytes(COPIED_BYTES_MAX + 8)))
    decoder = greeted()
    room = decoder.buffer()
    (frame,) = receive(decoder, stream, [len(stream)])
    assert address(frame.payload) == address(room) + PREFIX_BYTES + 8
    assert isinstance(frame.payload, memoryview)
    assert frame.payload.readonly


def test_a_small_payload_does_not_keep_the_block() -> None:
    stream = wire(Frame(1, 0, 0, b"abc", bytes(COPIED_BYTES_MAX)))
    decoder = greeted()
    place = address(decoder.buffer())
    (frame,) = receive(decoder, stream, [len(stream)])
    assert isinstance(frame.payload, bytes)
    assert address(decoder.buffer()) == place  # the block is used again at once


def test_a_payload_is_sent_as_it_is() -> None:
    payload = memoryview(b"payload ")
    assert encode(Frame(1, 0, 0, b"abc", payload))[1] is payload


def test_frames_that_fit_into_the_block_are_received_without_a_new_one() -> None:
    stream = wire(*[Frame(1, 0, number, b"abc", bytes(1000)) for number in range(1000)])
    decoder = greeted()
    place = address(decoder.buffer())
    assert len(receive(decoder, stream, itertools.repeat(5000))) == 1000
    assert address(decoder._block) == place


@given(
    payload_sizes=st.lists(
        st.one_of(
            st.integers(0, 40),
            st.integers(COPIED_BYTES_MAX // 8 - 2, COPIED_BYTES_MAX // 8 + 2),
            st.integers(0, RECEIVE_BLOCK_BYTES // 4),
        ),
        max_size=12,
    ),
    sizes=st.lists(
        st.one_of(st.integers(1, 100), st.integers(1, 40_000), st.just(RECEIVE_BLOCK_BYTES)), min_size=1, max_size=9
    ),
    broken_at=st.none() | st.integers(0, 1 << 30),
)
@settings(max_examples=80, deadline=None)
def test_received_into_blocks_in_any_sizes(payload_sizes: list[int], sizes: list[int], broken_at: int | None) -> None:
    """Kept payloads never change, room never runs out, and the frames are those of the whole stream."""
    frames = [
        Frame(1, 0, number, b"header"[: number % 7], bytes([number + 1]) * (8 * words))
        for number, words in enumerate(payload_sizes)
    ]
    stream = bytearray(wire(*frames))
    if broken_at is not None and stream:
        stream[broken_at % len(stream)] ^= 0x80
    whole = decode([bytes(stream)])
    decoder = greeted()
    kept: list[Frame] = []
    at, reads = 0, itertools.cycle(sizes)
    while at < len(stream) and decoder.error is None:
        room = decoder.buffer()
        assert len(room) > 0
        part = stream[at : at + min(next(reads), len(room))]
        room[: len(part)] = part
        with contextlib.suppress(ProtocolError):
            kept += decoder.received(len(part))
        at += len(part)
    assert all(address(frame.payload) % 8 == 0 for frame in kept if len(frame.payload))
    assert (list(map(plain, kept)), None if decoder.error is None else str(decoder.error)) == whole


@pytest.mark.parametrize("large", [False, True], ids=["copied", "lent"])
@pytest.mark.parametrize("begun", [0, 8, 16, 64])
def test_the_end_of_a_block_is_not_read_into_in_crumbs(large: bool, begun: int) -> None:
    """Room for a few bytes would cost a system call for nothing."""
    left = 100
    first = Frame(1, 0, 0, b"", bytes(COPIED_BYTES_MAX + 8 if large else 8))
    filler = Frame(1, 0, 0, b"", bytes(RECEIVE_BLOCK_BYTES - len(wire(first)) - begun - left // 8 * 8 - PREFIX_BYTES))
    small = [Frame(1, 0, 0, b"", bytes(1008))] * (len(filler.payload) // 1024)
    stream = wire(first, *small, Frame(1, 0, 1, b"", filler.payload[: len(filler.payload) % 1024]))
    last = wire(Frame(1, 0, 2, b"", bytes(120)))
    decoder = greeted()
    receive(decoder, stream + last[:begun], itertools.repeat(50_000))
    assert len(decoder.buffer()) >= ROOM_BYTES_MIN
    assert [frame.correlation for frame in receive(decoder, last[begun:], [200])] == [2]


def test_what_has_come_of_a_large_frame_is_not_moved_for_a_small_read() -> None:
    first = Frame(1, 0, 0, b"", bytes(RECEIVE_BLOCK_BYTES // 2))
    second = Frame(1, 0, 1, b"", bytes(RECEIVE_BLOCK_BYTES - len(wire(first)) - PREFIX_BYTES))
    stream = wire(first, second)
    assert len(stream) == RECEIVE_BLOCK_BYTES
    decoder = greeted()
    place = address(decoder.buffer())
    receive(decoder, stream[:-100], [len(stream)])
    assert len(decoder.buffer()) == 100
    (frame,) = receive(decoder, stream[-100:], [100])
    assert address(frame.payload) == place + len(wire(first)) + PREFIX_BYTES


def test_a_decoder_that_has_failed_still_offers_room() -> None:
    decoder = greeted()
    for _ in range(3):
        room = decoder.buffer()
        room[:] = b"\xff" * len(room)
        with pytest.raises(ProtocolError, match="exceeds"):
            decoder.received(len(room))
    assert len(decoder.buffer()) > 0


def test_frames_of_a_feed_larger_than_a_block_are_kept_when_its_end_is_broken() -> None:
    decoder = greeted()
    stream = wire(Frame(1, 0, 0, b"", bytes(RECEIVE_BLOCK_BYTES // 2))) * 4 + b"\xff" * 16
    assert len(decoder.feed(stream)) == 4
    with pytest.raises(ProtocolError, match="exceeds"):
        decoder.feed(GOLDEN)


def test_a_frame_that_has_begun_is_known() -> None:
    decoder = greeted()
    assert not decoder.is_inside
    decoder.feed(GOLDEN[:1])
    assert decoder.is_inside
    decoder.feed(GOLDEN[1:])
    assert not decoder.is_inside


def test_frames_outlive_a_buffer_that_is_reused() -> None:
    block = bytearray(GOLDEN)
    (frame,) = greeted().feed(block)
    block[:] = bytes(len(block))
    assert bytes(frame.payload) == b"12345678"


def test_headers_end_where_padding_still_fits_a_u16() -> None:
    prefix = bytearray(wire(Frame(1, 0, 0, b"", bytes(65_536)))[:PREFIX_BYTES])
    prefix[6:8] = (FRAME_HEADER_BYTES_MAX + 1).to_bytes(2, "little")
    with pytest.raises(ProtocolError, match="header of 65529 bytes"):
        greeted().feed(bytes(prefix))


def test_what_cannot_be_framed_is_refused() -> None:
    largest = Frame(1, 0, 0, bytes(FRAME_HEADER_BYTES_MAX), b"")
    assert [plain(frame) for frame in greeted().feed(wire(largest))] == [largest]
    with pytest.raises(InvalidInput, match=str(FRAME_HEADER_BYTES_MAX)):
        encode(largest._replace(header=bytes(FRAME_HEADER_BYTES_MAX + 1)))
    with pytest.raises(BatchTooLarge, match=str(FRAME_BYTES_MAX)):
        encode(Frame(1, 0, 0, b"", bytes(FRAME_BYTES_MAX)))
