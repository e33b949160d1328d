"""What was read and not taken: records and batches in any order, and an interruption at any step."""

import sys
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Any

import pytest

from ithaca.model.interface import Batch
from ithaca.runtime import read_ahead
from ithaca.runtime.read_ahead import ReadAhead
from ithaca.wire.build import build
from ithaca.wire.positioned import PositionedBatch


class Chunks:
    """Positions from 1 on, in chunks of batches of these sizes."""

    def __init__(self, *chunks: list[int]) -> None:
        self._chunks = list(chunks)
        self.position = 1

    def read(self) -> list[Batch]:
        found: list[Batch] = []
        for count in self._chunks.pop(0) if self._chunks else ():
            batch = build([b"%d" % (self.position + n) for n in range(count)], timestamp_us=0)
            found.append(PositionedBatch(batch, self.position, 0, 0, count))
            self.position += count
        return found


CHUNKS = ([1, 3, 2], [5], [1, 1, 1, 4])
TAIL = 1 + sum(map(sum, CHUNKS))


def taken(ahead: ReadAhead[Chunks], way: int) -> list[int]:
    """What one way of taking gives."""
    if ahead.is_empty:
        ahead.fill()
    if way == 0:
        if not ahead.held.records:
            ahead.decode()
        return [ahead.held.records.pop().position] if ahead.held.records else []
    if way == 1:
        return [record.position for record in ahead.take(3)]
    if way == 2:
        return [position for batch in ahead.take_batches() for position in batch.positions()]
    ahead.rewind()
    batch = ahead.next_batch()
    return [] if batch is None else batch.positions()


@pytest.mark.parametrize("seed", range(30))
def test_all_ways_of_taking_go_on_where_the_others_stood(seed: int) -> None:
    random, ahead = Random(seed), ReadAhead(Chunks(*CHUNKS))
    found: list[int] = []
    while ahead.position < TAIL:
        assert ahead.position == len(found) + 1
        found += taken(ahead, random.randrange(4))
    assert found == list(range(1, TAIL))
    assert ahead.is_empty
    assert ahead.take_batches() == []


def test_what_is_taken_at_once_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = ReadAhead(Chunks(*CHUNKS))
    assert ahead.take(100) == [], "nothing was read"
    ahead.fill()
    first = ahead.held.batches[-1].raw_bytes
    monkeypatch.setattr(read_ahead, "POLL_BYTES_MAX", first + 1)
    assert len(ahead.take(100, ahead.fill)) == 1 + 3, "by whole batches, until it is reached"


class Interrupted(Exception):
    """As Ctrl-C would be."""


def interrupted_at(step: int, work: Callable[[], object]) -> bool:
    """Do the work, and interrupt it at a line of the buffer; False when it has not so many."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != read_ahead.__file__:
            return None
        if event == "line":
            lines += 1
            if lines == step:
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("step", range(1, 12))
def test_decoding_and_rewinding_lose_nothing_wherever_they_are_interrupted(step: int) -> None:
    ahead = ReadAhead(Chunks(*CHUNKS))
    ahead.fill()
    interrupted_at(step, ahead.decode)
    assert ahead.position == 1
    if not ahead.held.records:
        ahead.decode()
    assert ahead.held.records.pop().position == 1
    ahead.decode()
    assert ahead.held.records.pop().position == 2
    interrupted_at(step, ahead.rewind)
    assert ahead.position == 3
    assert [position for batch in ahead.take_batches() for position in batch.positions()] == [3, 4, 5, 6]
