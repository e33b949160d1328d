"""Groups: members share the records of a log by their keys, and hand parts over without losing or repeating work."""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from ithaca.client.consuming.held_parts import part_of
from ithaca.model.engine import Feature
from ithaca.model.errors import ConsumerFenced, InvalidInput, LogClosed, NoSuchConsumer
from ithaca.model.interface import Consumer, Log
from ithaca.model.limits import CONSUMER_PARTS_MAX
from ithaca.model.records import KeyFilter, Record
from ithaca.runtime.machine import monotonic_s
from tests.conformance.engines import Engine

pytestmark = pytest.mark.shared_log

PARTS = 5
KEYS = [b"key-%d" % number for number in range(12)]
PATIENCE_S = 30.0


@pytest.fixture(autouse=True)
def needed(engine: Engine) -> None:
    engine.require(Feature.CONSUMERS)


def fill(log: Log, count: int, first: int = 0) -> None:
    """Every seventh record has no key."""
    numbers = range(first, first + count)
    keys = [None if number % 7 == 0 else KEYS[number % len(KEYS)] for number in numbers]
    log.append_many([b"%d" % number for number in numbers], keys=keys)


class Members:
    """Members of one group, and what each was handed out."""

    def __init__(self, log: Log, **options: Any) -> None:
        self.log = log
        self.name = f"billing-{uuid4()}"
        self.start = log.tail()
        self.options: dict[str, Any] = {"group": True, "parts": PARTS, "commit_records": 3, "start": self.start}
        self.options |= options
        self.all: list[Consumer] = []
        self.found: list[tuple[int, Record]] = []

    def join(self, **options: Any) -> Consumer:
        member = self.log.consumer(self.name, **(self.options | options))
        self.all.append(member)
        return member

    def poll(self, *members: Consumer, max_records: int = 4) -> None:
        for member in members or self.all:
            records = member.poll(timeout=0.02, max_records=max_records)
            self.found += [(self.all.index(member), record) for record in records]

    def until(self, done: Callable[[], bool], *members: Consumer) -> None:
        """Have members go on until something is so."""
        end_s = monotonic_s() + PATIENCE_S
        while not done():
            assert monotonic_s() < end_s, f"{self.all}, {Counter(number for number, _ in self.found)}"
            self.poll(*members)

    @property
    def values(self) -> list[int]:
        return sorted(int(record.value) for _, record in self.found)

    def by_key(self) -> dict[bytes | None, list[int]]:
        """Of each key, in the order in which they were handed out, whoever got them."""
        found = defaultdict(list)
        for _, record in self.found:
            found[record.key].append(int(record.value))
        return found


def test_one_member_has_all_parts_and_every_record(log: Log) -> None:
    members = Members(log)
    fill(log, 30)
    member = members.join()
    assert member.parts == tuple(range(PARTS))
    members.until(lambda: len(members.found) >= 30)
    assert members.values == list(range(30))
    assert member.commit() == member.committed == member.position
    assert [each.parts for each in log.group_members(members.name)] == [member.parts]
    info = next(each for each in log.consumers() if each.name == members.name)
    assert (info.is_group, info.positions) == (True, (member.position,) * PARTS)
    assert str(PARTS) in repr(member)


def test_a_member_that_comes_takes_its_share_and_nothing_is_lost_repeated_or_out_of_order(log: Log) -> None:
    members = Members(log)
    fill(log, 60)
    older = members.join()
    members.until(lambda: len(members.found) >= 10)
    newer = members.join()
    assert newer.parts == ()
    members.until(lambda: len(newer.parts) == 2)
    assert sorted(older.parts + newer.parts) == list(range(PARTS))
    fill(log, 60, first=60)
    members.until(lambda: len(members.found) >= 120)
    assert members.values == list(range(120))
    assert all(values == sorted(values) for values in members.by_key().values())
    assert {number for number, _ in members.found} == {0, 1}


def test_a_part_is_that_of_the_key_filter_and_records_without_a_key_are_in_the_first(log: Log) -> None:
    members = Members(log)
    fill(log, 40)
    members.join()
    members.join()
    members.until(lambda: len(members.all[1].parts) == 2)
    members.until(lambda: len(members.found) >= 40)
    for key in KEYS:
        number = part_of(key, PARTS)
        expected = [
            record.value
            for record in log.read_range(members.start, where=KeyFilter.part(number, PARTS))
            if record.key == key
        ]
        assert [b"%d" % value for value in members.by_key()[key]] == expected
    assert part_of(None, PARTS) == 0


def test_a_member_that_leaves_hands_over_at_once(log: Log) -> None:
    members = Members(log)
    fill(log, 30)
    leaving, staying = members.join(), members.join()
    members.until(lambda: len(staying.parts) == 2)
    members.poll(leaving)
    with leaving:
        pass
    members.until(lambda: len(staying.parts) == PARTS, staying)
    members.until(lambda: len(members.found) >= 30, staying)
    assert members.values == list(range(30))
    with pytest.raises(LogClosed, match="billing"):
        leaving.poll()


def test_what_a_dead_member_had_goes_on_when_its_lease_has_ended_and_it_commits_nothing_any_more(log: Log) -> None:
    members = Members(log, lease=1, commit_records=None)
    fill(log, 40)
    dead, alive = members.join(), members.join()
    members.until(lambda: dead.commit() > 0 and len(alive.parts) == 2)
    alive.commit()
    kept = len(members.found)
    fill(log, 20, first=40)
    members.until(lambda: len(members.found) > kept, dead)
    members.until(lambda: len(alive.parts) == PARTS, alive)
    with pytest.raises(ConsumerFenced, match="billing"):
        dead.commit()
    members.until(lambda: set(range(60)) <= set(members.values), alive)
    assert dead.parts == ()
    members.until(lambda: alive.commit() > 0 and len(dead.parts) == 2)  # it is back, and takes its share
    dead.commit()


def test_what_was_asked_back_is_handed_over_once_it_is_committed(log: Log) -> None:
    told: list[tuple[str, tuple[int, ...]]] = []
    members = Members(log, commit_records=None, lease=30)
    fill(log, 40)
    older = members.join(
        on_assigned=lambda parts: told.append(("has", parts)), on_revoked=lambda parts: told.append(("gives", parts))
    )
    members.poll(older)
    newer = members.join()
    members.until(lambda: len(told) == 2)
    members.poll()
    given = told[1][1]
    assert told == [("has", tuple(range(PARTS))), ("gives", given)]
    assert (len(given), older.parts, newer.parts) == (2, tuple(range(PARTS)), ())
    older.commit()
    members.until(lambda: newer.parts == given)
    assert older.parts == tuple(sorted(set(range(PARTS)) - set(given)))
    members.until(lambda: len(members.found) >= 40)
    assert members.values == list(range(40))


def test_a_callback_may_commit_so_that_the_part_is_handed_over_at_once(log: Log) -> None:
    members = Members(log, commit_records=None, lease=30)
    fill(log, 20)
    older = members.join(on_revoked=lambda parts: members.all[0].commit())
    members.poll(older)
    newer = members.join()
    members.until(lambda: len(newer.parts) == 2)
    members.until(lambda: len(members.found) >= 20)
    assert members.values == list(range(20))


def test_a_reset_moves_all_parts_under_their_members(log: Log) -> None:
    members = Members(log)
    fill(log, 20)
    member = members.join()
    members.until(lambda: len(members.found) >= 20)
    log.reset_consumer(members.name, members.start)
    members.until(lambda: len(members.found) >= 40)
    assert members.values == sorted([*range(20), *range(20)])
    assert member.parts == tuple(range(PARTS))


def test_a_group_is_opened_as_it_was_made(log: Log) -> None:
    members = Members(log)
    members.join()
    log.consumer("alone").close()
    for name, options in ((members.name, {}), (members.name, {"group": True, "parts": 4}), ("alone", {"group": True})):
        with pytest.raises(InvalidInput, match=name):
            log.consumer(name, **options)
    with pytest.raises(InvalidInput, match="alone"):
        log.group_members("alone")
    assert len(members.join(parts=None).parts) == 0
    with pytest.raises(NoSuchConsumer):
        log.group_members("nobody")


@pytest.mark.parametrize(
    "options",
    [
        {"group": True, "parts": 0},
        {"group": True, "parts": CONSUMER_PARTS_MAX + 1},
        {"group": True, "parts": True},
        {"group": True, "lease": 0.1},
        {"group": True, "lease": "2h"},
        {"parts": 4},
        {"lease": 5},
        {"on_assigned": print},
        {"on_revoked": print},
    ],
)
def test_what_cannot_be_asked_for(log: Log, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        log.consumer("bad", **options)


def test_a_deleted_group_says_so_to_its_members(log: Log) -> None:
    members = Members(log)
    member = members.join()
    log.delete_consumer(members.name)
    with pytest.raises(NoSuchConsumer, match="billing"):
        for _ in member:
            pass


def test_transactions_of_members_write_for_each_record_once(engine: Engine, log: Log) -> None:
    engine.require(Feature.PREPARED)
    mine = KeyFilter.prefix(b"key-")
    members = Members(log, commit_records=None, lease=1, where=mine)
    fill(log, 40)
    start = log.tail()
    expected = [record.value for record in log.read_range(members.start, start, where=mine)]

    def move(member: Consumer) -> None:
        """What the member was handed out last goes on, and is committed."""
        with member.transaction() as transaction:
            transaction.append_many([record.value for _, record in members.found])
        members.found.clear()

    dead, alive = members.join(), members.join()
    while len(alive.parts) < 2:
        for member in members.all:
            members.poll(member, max_records=2)
            if members.found:
                move(member)
    doomed = dead.transaction()
    doomed.__enter__()
    doomed.append_many([record.value for record in dead.poll(timeout=5, max_records=3)])
    members.until(lambda: len(alive.parts) == PARTS, alive)
    with pytest.raises(ConsumerFenced):
        doomed.__exit__(None, None, None)
    assert dead.parts == ()
    end_s = monotonic_s() + PATIENCE_S
    while sum(1 for _ in log.read_range(start)) < len(expected):
        assert monotonic_s() < end_s
        if members.found:
            move(alive)
        members.poll(alive)
    assert sorted(record.value for record in log.read_range(start)) == sorted(expected)
