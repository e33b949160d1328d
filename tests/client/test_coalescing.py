"""Records that wait together become batches; their answers and their deadlines are found again for each."""

import asyncio
from collections.abc import Sequence

import pytest

from ithaca.client.appending import coalescing
from ithaca.client.appending.coalescing import Single, WaitingAppends, Whole, answer
from ithaca.client.appending.deadlines import Deadlines
from ithaca.client.intake import RecordSlot
from ithaca.model.errors import DeadlineExceeded
from ithaca.model.limits import COALESCED_BATCHES_INFLIGHT
from ithaca.model.records import Durability, Receipt
from ithaca.wire.build import build, record_bytes


class Asked(RecordSlot):
    """A record, and what it was told."""

    __slots__ = ("key", "outcome", "size_bytes", "value")

    def __init__(self, value: bytes, key: bytes | None = None) -> None:
        self.value, self.key, self.size_bytes = value, key, record_bytes(value, key)
        self.outcome: Receipt | BaseException | None = None

    def done(self) -> bool:
        return self.outcome is not None

    def set_result(self, receipt: Receipt, /) -> None:
        assert self.outcome is None
        self.outcome = receipt

    def set_exception(self, error: BaseException, /) -> None:
        assert self.outcome is None
        self.outcome = error

    def set_results(self, run: Sequence[RecordSlot], position: int, shard: int, durability: Durability) -> None:
        for place, each in enumerate(run):
            if not each.done():
                each.set_result(Receipt(position + place, 1, shard, durability))


def positions(*asked: Asked) -> list[int]:
    return [each.outcome.position for each in asked if isinstance(each.outcome, Receipt)]


def numbers(count: int) -> tuple[int, int, int]:
    return 7, 1, 100


def whole(*values: bytes) -> Whole:
    return Whole(build(values, timestamp_us=1), Asked(b""))


def test_runs_and_batches_are_cut_in_the_order_in_which_they_came() -> None:
    waiting = WaitingAppends("none")
    waiting.add_all([Asked(b"a"), Asked(b"b")])
    waiting.add(whole(b"c", b"d"))
    waiting.add(Single(b"e", b"key", Asked(b"")))
    waiting.add_all([Asked(b"f")])
    cuts = []
    while (cut := waiting.cut(0, numbers)) is not None:
        cuts.append(cut)
    assert [[record.value for record in cut.batch.records(1, 0)] for cut in cuts] == [
        [b"a", b"b"],
        [b"c", b"d"],
        [b"e", b"f"],
    ]
    assert [record.key for record in cuts[2].batch.records(1, 0)] == [b"key", None]
    assert not any(cut.batch.has_keys for cut in cuts[:2])
    assert len(waiting) == 0
    assert waiting._bytes == 0
    assert waiting._wholes == 0


def test_a_run_that_is_too_large_for_one_batch_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coalescing, "COALESCE_BYTES_MAX", 3 * record_bytes(b"x", None))
    waiting = WaitingAppends("none")
    run = [Asked(b"%d" % number) for number in range(8)]
    waiting.add_all(run)
    cut = [waiting.cut(0, numbers) for _ in range(3)]
    assert [each.batch.count for each in cut if each is not None] == [3, 3, 2]
    assert sum(each.size_bytes for each in cut if each is not None) == sum(each.size_bytes for each in run)
    assert waiting.cut(0, numbers) is None


def test_a_record_waits_for_more_beside_full_lanes_whatever_batches_went_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = whole(b"b", b"c")
    monkeypatch.setattr(coalescing, "COALESCE_BYTES_MAX", 2 * batch.size_bytes)
    waiting = WaitingAppends("none")
    waiting.add(batch)
    waiting.add_all([Asked(b"a")])
    cut = waiting.cut(COALESCED_BATCHES_INFLIGHT, numbers)
    assert cut is not None
    assert cut.batch.count == 2, "a batch of the caller's own waits for nothing"
    assert waiting.cut(COALESCED_BATCHES_INFLIGHT, numbers) is None
    assert waiting.cut(COALESCED_BATCHES_INFLIGHT - 1, numbers) is not None


def test_a_run_is_answered_record_by_record_but_for_those_that_have_an_answer() -> None:
    run = [Asked(b"a"), Asked(b"b"), Asked(b"c")]
    late = DeadlineExceeded("too late")
    run[1].set_exception(late)
    answer(run, 40, 2, "fsync")
    assert positions(*run) == [40, 42]
    assert run[1].outcome is late


def test_what_is_no_run_is_answered_with_its_records_counted() -> None:
    first, batch, last = Asked(b"a"), whole(b"b", b"c"), Asked(b"d")
    single = Single(b"e", None, Asked(b""))
    answer([first, batch, last, single], 40, 0, "fsync")
    slots = (first, batch.slot, last, single.slot)
    assert [
        slot.outcome.position for slot in slots if isinstance(slot, Asked) and isinstance(slot.outcome, Receipt)
    ] == [*(40, 41, 43, 44)]


async def test_deadlines_of_runs_pass_as_they_came_and_answered_ones_are_forgotten() -> None:
    passed = asyncio.Event()
    deadlines = Deadlines(0.02, passed.set)
    answered = [Asked(b"x") for _ in range(5000)]
    for each in answered:
        each.set_result(Receipt(1, 1, 0, "fsync"))
    deadlines.add(answered)
    assert len(deadlines) == 0
    assert not deadlines.is_waited_for
    unanswered = [Asked(b"a"), Asked(b"b")]
    unanswered[0].set_result(Receipt(1, 1, 0, "fsync"))
    deadlines.add(unanswered)
    assert deadlines.is_waited_for
    async with asyncio.timeout(60):
        while deadlines.is_waited_for:
            passed.clear()
            await passed.wait()
    assert positions(unanswered[0]) == [1]
    assert isinstance(unanswered[1].outcome, DeadlineExceeded)
    assert len(deadlines) == 0
    deadlines.close()
