"""What continues a session, against a model that keeps every number (invariants 1 to 3 of `ithaca.sessions`)."""

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ithaca.model.errors import SequenceGap, SessionFenced
from ithaca.model.limits import SESSION_BATCHES_MAX
from ithaca.sessions.continuing import check_epoch, earlier


class Sent(NamedTuple):
    first_seq: int
    count: int  # type: ignore[assignment]  # a tuple has a method of that name


@dataclass
class Known:
    name: str = "importer"
    epoch: int = 3
    next_seq: int = 1
    placed: list[Sent] = field(default_factory=list)


def going_on(counts: list[int]) -> Known:
    """A session that sent batches of so many records, of which its home keeps the last."""
    known = Known()
    for count in counts:
        known.placed = [*known.placed, Sent(known.next_seq, count)][-SESSION_BATCHES_MAX:]
        known.next_seq += count
    return known


@given(
    counts=st.lists(st.integers(1, 4), max_size=SESSION_BATCHES_MAX + 3),
    first_seq=st.integers(1, 50),
    count=st.integers(1, 5),
)
def test_a_batch_is_the_next_or_one_of_the_last_or_refused(counts: list[int], first_seq: int, count: int) -> None:
    known = going_on(counts)
    starts = [1 + sum(counts[:number]) for number in range(len(counts))]
    recent = list(zip(starts, counts, strict=True))[-SESSION_BATCHES_MAX:]
    if first_seq == 1 + sum(counts):
        assert earlier(known, first_seq, count) is None
    elif (first_seq, count) in recent:
        assert earlier(known, first_seq, count) == (first_seq, count)
    else:
        with pytest.raises(SequenceGap, match=f"'importer' expects number {known.next_seq}, .* from {first_seq} are"):
            earlier(known, first_seq, count)


def test_an_earlier_epoch_is_fenced_and_others_are_not() -> None:
    check_epoch(Known(epoch=3), 3)
    check_epoch(Known(epoch=3), 4)
    with pytest.raises(SessionFenced, match=r"opened again \(epoch 3\); this handle has epoch 2"):
        check_epoch(Known(epoch=3), 2)
