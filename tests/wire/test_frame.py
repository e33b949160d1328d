"""The frame codec: whole input and any other cut of it agree, and broken bytes stay outside."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ithaca.model.errors import BatchTooLarge, InvalidInput, ProtocolError
from ithaca.model.limits import FRAME_BYTES_MAX, FRAME_HEADER_BYTES_MAX, HELLO_BYTES_MAX, KIB, MIB
from ithaca.wire.frame import PREFIX_BYTES, Frame, FrameDecoder, encode

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


def test_a_length_allocates_nothing() -> None:
    """The largest frame is announced, and 1 KiB of it comes."""
    prefix = FRAME_BYTES_MAX.to_bytes(4, "little") + bytes(12)
    decoder = greeted()
    tracemalloc.start()
    frames = decoder.feed(prefix) + decoder.feed(bytes(KIB))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert frames == []
    assert peak < 64 * KIB


def test_memory_is_one_frame_and_what_was_fed() -> None:
    stream = wire(Frame(1, 0, 0, b"header", bytes(4 * MIB)))
    decoder = greeted()
    tracemalloc.start()
    found = [len(decoder.feed(stream[at : at + 64 * KIB])) for _ in range(3) for at in range(0, len(stream), 64 * KIB)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(found) == 3
    assert peak < 10 * MIB  # a buffer that grows is copied to where there is room


@pytest.mark.parametrize("first", [0, 1, 5, 16, 31, 33, 40])
def test_payloads_are_aligned_wherever_the_stream_is_cut(first: int) -> None:
    stream = wire(*[Frame(1, 0, number, b"abc", b"payload " * 3) for number in range(5)])
    decoder = greeted()
    frames = decoder.feed(stream[:first]) + decoder.feed(memoryview(stream)[first:])
    assert [frame.correlation for frame in frames] == list(range(5))
    assert [np.frombuffer(frame.payload, np.uint8).ctypes.data % 8 for frame in frames] == [0] * 5


def test_payloads_of_bytes_are_not_copied() -> None:
    block = wire(*[Frame(1, 0, 0, b"abc", b"payload ") for _ in range(3)])
    low = np.frombuffer(block, np.uint8).ctypes.data
    for frame in greeted().feed(block):
        assert low <= np.frombuffer(frame.payload, np.uint8).ctypes.data < low + len(block)
    payload = memoryview(b"payload ")
    assert encode(Frame(1, 0, 0, b"abc", payload))[1] is payload


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
