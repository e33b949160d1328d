"""Memory to receive into: used again, and never while somebody has a view of what is in it."""

import numpy as np

from ithaca.model.limits import KIB, MIB, RECEIVE_BLOCK_BYTES, SPARE_BLOCK_BYTES_MAX
from ithaca.model.records import Buffer
from ithaca.wire import blocks
from ithaca.wire.blocks import give_block, take_block
from ithaca.wire.frame import Frame, FrameDecoder, encode


def address(buffer: Buffer) -> int:
    return int(np.frombuffer(buffer, np.uint8).ctypes.data)


def test_a_block_is_used_again_once_nobody_has_a_view_of_it() -> None:
    block = take_block(3 * MIB)
    place = block.ctypes.data
    view = memoryview(block)[5:9]  # type: ignore[arg-type]
    give_block(block)
    del block
    other = take_block(3 * MIB)
    assert other.ctypes.data != place
    del view
    again = take_block(3 * MIB - 100 * KIB)
    assert again.ctypes.data == place
    assert take_block(KIB).ctypes.data != place


def test_what_is_kept_is_bounded_even_if_all_of_it_is_in_use() -> None:
    views = []
    for _ in range(40):
        block = take_block(MIB)
        views.append(memoryview(block))  # type: ignore[arg-type]
        give_block(block)
    assert blocks._spare.bytes <= SPARE_BLOCK_BYTES_MAX
    assert blocks._spare.bytes == sum(map(len, blocks._spare.blocks))
    assert len({address(view) for view in views}) == 40


def test_large_frames_that_are_alike_come_where_they_stay() -> None:
    """Each is received whole into a block of its length; what was received before is not written over meanwhile."""
    size = 2 * RECEIVE_BLOCK_BYTES
    stream = b"".join(
        bytes(buffer) for number in range(30) for buffer in encode(Frame(1, 0, number, b"x", bytes([number]) * size))
    )
    decoder = FrameDecoder()
    decoder.greeted()
    decoder.are_alike = True
    kept: list[Frame] = []
    at, reads = 0, 0
    while at < len(stream):
        room = decoder.buffer()
        part = stream[at : at + len(room)]
        room[: len(part)] = part
        kept = [*kept[-3:], *decoder.received(len(part))]
        at, reads = at + len(part), reads + 1
        assert all(bytes(each.payload) == bytes([each.correlation]) * size for each in kept)
    assert kept[-1].correlation == 29
    assert reads == 31, "the first one is not known to be large before some of it is there"


def rooms(sizes: list[int]) -> list[int]:
    """How much room there is for each frame with a payload of such a size, each received to its end."""
    decoder = FrameDecoder()
    decoder.greeted()
    found = []
    for number, size in enumerate(sizes):
        frame = b"".join(map(bytes, encode(Frame(1, 0, number, b"x", bytes(size)))))
        found.append(len(decoder.buffer()) - len(frame))
        at = 0
        while at < len(frame):
            room = decoder.buffer()
            part = frame[at : at + len(room)]
            room[: len(part)] = part
            at += len(part)
            frames = decoder.received(len(part))
        assert [len(each.payload) for each in frames] == [size]
    return found


def test_two_large_frames_of_one_length_are_followed_by_a_third() -> None:
    size = 4 * RECEIVE_BLOCK_BYTES
    first, second, third, fourth = rooms([size] * 4)
    assert first == second == RECEIVE_BLOCK_BYTES - encoded(size)
    assert third == fourth == 0


def test_frames_of_other_lengths_come_into_usual_blocks() -> None:
    """Nobody keeps a large block who said something large before."""
    size, small = 4 * RECEIVE_BLOCK_BYTES, 8
    *_, after_large, after_other, after_small = rooms([size, size, size - 8, size, small, small])
    assert after_large == RECEIVE_BLOCK_BYTES - encoded(size)
    assert after_other == RECEIVE_BLOCK_BYTES - encoded(small)
    assert after_small in (after_other, after_other - encoded(small))


def encoded(size: int) -> int:
    return sum(map(len, encode(Frame(1, 0, 0, b"x", bytes(size)))))
