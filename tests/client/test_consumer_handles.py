"""Handles of named consumers and of members of groups, in both faces, on a directory and by a clock that is set."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.client.publishing_logs import Asked, AsyncPublishingLog, PublishingLog
from tests.conformance.aio_adapter import AdaptedLog, LoopThread
from tests.embedded.clock import Clock

from ithaca.client.consuming.held_parts import part_of
from ithaca.consumers.limits import GROUP_BEAT_S
from ithaca.embedded.aio_records import AsyncEmbeddedSubscription
from ithaca.embedded.opening import open_engine
from ithaca.embedded.records import EmbeddedSubscription
from ithaca.model.errors import DeadlineExceeded, InvalidInput, LogClosed
from ithaca.model.interface import Consumer, Log
from ithaca.model.limits import GROUP_LEASE_S, GROUP_LEASE_S_MAX, GROUP_LEASE_S_MIN
from ithaca.model.records import Record
from ithaca.runtime import machine

PARTS = 4
WAITS_MAX = 20


@dataclass
class World:
    """A log, what it was asked, and the clock by which its handles go."""

    log: Log
    asked: Asked
    clock: Clock

    def fill(self, count: int, keys: list[bytes] | None = None) -> None:
        self.log.append_many([b"%d" % number for number in range(count)], keys=keys)

    def follow(self, *members: Consumer, until: Callable[[], bool]) -> None:
        """Have members ask for records, and which parts are theirs, until something is so."""
        for _ in range(WAITS_MAX):
            for member in members:
                assert member.poll() == []
            if until():
                return
            self.clock.passed_s += 2 * GROUP_BEAT_S
        raise AssertionError(f"{members} after {WAITS_MAX} rounds")

    def two_members(self) -> tuple[Consumer, Consumer]:
        """Of one group, on an empty log, each with half of the parts."""
        older, newer = (self.log.consumer("g", group=True, parts=PARTS, commit_records=1) for _ in range(2))
        self.follow(older, newer, until=lambda: len(newer.parts) == PARTS // 2)
        return older, newer


@pytest.fixture(params=["blocking", "awaited"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    asked, clock = Asked(), Clock()
    before = machine.use(clock)
    engine = open_engine(tmp_path / "log", "a", "os", None, None, None, None)
    try:
        if request.param == "blocking":
            with PublishingLog(engine, asked) as log:
                yield World(log, asked, clock)
        else:
            thread = LoopThread()

            async def opened() -> AsyncPublishingLog:
                return AsyncPublishingLog(engine, asked)

            with AdaptedLog(thread, thread.run(opened())) as adapted:
                yield World(adapted, asked, clock)
            thread.stop()
    finally:
        machine.use(before)


def noted_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long subscriptions are asked to wait from now on, each time in vain: the time has passed then."""
    found: list[float] = []

    def poll(_: object, timeout: float, max_records: int) -> list[Record]:
        assert len(found) < WAITS_MAX, found
        found.append(timeout)
        world.clock.passed_s += timeout
        return []

    async def awaited_poll(twin: object, timeout: float, max_records: int) -> list[Record]:
        return poll(twin, timeout, max_records)

    monkeypatch.setattr(EmbeddedSubscription, "poll", poll)
    monkeypatch.setattr(AsyncEmbeddedSubscription, "poll", awaited_poll)
    return found


# A named consumer


def test_it_waits_as_long_as_it_is_told_in_one_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, waits = world.log.consumer("c"), noted_waits(world, monkeypatch)
    assert consumer.poll(timeout=60) == []
    assert waits == [pytest.approx(60, abs=1)]
    assert consumer.poll(timeout=0) == []
    assert waits[1:] == [0]


def test_it_wakes_up_to_commit_and_waits_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fill(1)
    consumer = world.log.consumer("c", commit_s=20)
    assert len(consumer.poll()) == 1
    waits = noted_waits(world, monkeypatch)
    assert consumer.poll(timeout=60) == []
    assert waits == [pytest.approx(20, abs=1), pytest.approx(40, abs=1)]
    assert consumer.committed == consumer.position == 2


def test_it_commits_what_was_handed_out_once_that_is_enough(world: World) -> None:
    world.fill(5)
    consumer = world.log.consumer("c", commit_records=2)
    found = []
    for _ in range(5):
        consumer.poll(max_records=1)
        found.append(consumer.committed)
    assert found == [1, 1, 3, 3, 5]


def test_how_long_it_was_idle_and_its_end(world: World) -> None:
    world.log.consumer("c").commit()
    world.clock.passed_s += 3600
    [shown] = world.log.consumers()
    assert shown.name == "c"
    assert shown.idle_s == pytest.approx(3600, abs=60)
    world.log.delete_consumer("c")
    assert world.log.consumers() == ()


# Transactions


def test_what_was_written_and_consumed_moves_together(world: World) -> None:
    world.fill(3)
    consumer = world.log.consumer("c", commit_records=3)
    consumer.poll(max_records=3)
    with consumer.transaction() as transaction:
        transaction.append_many([b"x", b"y"], keys=[b"k", None])
    assert consumer.committed == consumer.position == 4
    assert [(each.value, each.key) for each in world.log.read_range(4)] == [(b"x", b"k"), (b"y", None)]
    assert [each.position for each in world.log.consumers()] == [4]
    consumer.poll(max_records=1)
    with consumer.transaction():
        pass
    assert (world.asked.parts[-1].is_aborted, consumer.committed, world.log.tail()) == (True, 5, 6)


def fail_within(consumer: Consumer) -> None:
    with consumer.transaction() as transaction:
        transaction.append_many([b"x"])
        raise ZeroDivisionError


def test_after_an_error_what_was_handed_out_comes_again_and_is_counted_anew(world: World) -> None:
    world.fill(5)
    consumer = world.log.consumer("c", commit_records=4)
    first = consumer.poll(max_records=3)
    with pytest.raises(ZeroDivisionError):
        fail_within(consumer)
    assert [rows.is_aborted for rows in world.asked.parts] == [True]
    assert (consumer.position, consumer.committed, world.log.tail()) == (1, 1, 6)
    assert consumer.poll(max_records=3) == first
    consumer.poll(max_records=1)
    assert consumer.committed == 1, "three records are not four, although they were handed out twice"
    consumer.poll(max_records=1)
    assert consumer.committed == 5


def test_one_that_was_perhaps_published_has_its_consumer_opened_again(world: World) -> None:
    world.fill(2)
    consumer = world.log.consumer("c")
    consumer.poll()
    world.asked.failure = DeadlineExceeded("nobody answers")
    with pytest.raises(DeadlineExceeded), consumer.transaction() as transaction:
        transaction.append_many([b"x"])
    with pytest.raises(LogClosed, match="may have been published"):
        consumer.poll()
    assert len(world.log.consumer("c").poll()) == 2


# A member of a group


def test_members_share_the_parts_and_say_so(world: World) -> None:
    older, newer = world.two_members()
    assert sorted(older.parts + newer.parts) == list(range(PARTS))
    assert [each.parts for each in world.log.group_members("g")] == [older.parts, newer.parts]
    with newer:
        pass
    world.follow(older, until=lambda: len(older.parts) == PARTS)


def test_a_member_asks_again_long_before_its_lease_is_over(world: World) -> None:
    member = world.log.consumer("g", group=True, parts=PARTS, lease=GROUP_LEASE_S)
    member.poll()
    before = len(world.asked.beats)
    member.poll()
    assert len(world.asked.beats) == before, "it has just asked"
    for number in range(1, 4):
        world.clock.passed_s += 2 * GROUP_BEAT_S
        member.poll()
        assert len(world.asked.beats) == before + number
    assert 3 * 2 * GROUP_BEAT_S < GROUP_LEASE_S / 2


def test_a_member_passes_over_the_records_of_others(world: World) -> None:
    older, newer = world.two_members()
    keys = [b"%d" % number for number in range(100)]
    others = [key for key in keys if part_of(key, PARTS) in older.parts]
    world.fill(len(others), others)
    assert newer.poll() == []
    assert newer.position == world.log.tail()
    first = older.poll(max_records=1)
    assert [each.key for each in first] == others[:1]
    assert older.position == first[0].position + 1
    assert next(older).key == others[1]


def test_a_member_whose_transaction_failed_comes_back_as_another_and_does_it_again(world: World) -> None:
    world.fill(3)
    member = world.log.consumer("g", group=True, parts=PARTS)
    first = member.poll()
    world.asked.failure = DeadlineExceeded("nobody answers")
    with pytest.raises(DeadlineExceeded), member.transaction() as transaction:
        transaction.append_many([b"x"])
    world.asked.failure = None
    world.clock.passed_s += 2 * GROUP_BEAT_S
    assert member.poll() == first
    with member.transaction() as transaction:
        transaction.append_many([b"x"])
    assert (member.committed, world.log.tail()) == (4, 5)
    assert len({beat.member for beat in world.asked.beats}) == 2


@pytest.mark.parametrize("lease", [GROUP_LEASE_S_MIN, GROUP_LEASE_S_MAX])
def test_a_lease_lies_between_its_bounds(world: World, lease: float) -> None:
    world.log.consumer("g", group=True, lease=lease).close()
    wrong = lease / 2 if lease == GROUP_LEASE_S_MIN else lease * 2
    with pytest.raises(InvalidInput, match="lease"):
        world.log.consumer("g", group=True, lease=wrong)
