"""What a member of a group has: each part hands out its own records, in order, each once, from where it was opened."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ithaca.client.consuming.held_parts import HeldParts, part_of
from ithaca.model.consumers import CommitPosition, ConsumerRefused, PartStands
from ithaca.model.records import HASH_SPACE, KeyFilter, Record
from ithaca.wire.keys import hash_key


def record(position: int, key: bytes | None) -> Record:
    return Record(position=position, value=b"", key=key, timestamp_us=0, shard=0)


@given(key=st.binary(max_size=12), count=st.integers(1, 1024))
def test_the_part_of_a_key_is_that_of_the_filter(key: bytes, count: int) -> None:
    where = KeyFilter.part(part_of(key, count), count)
    assert where.low <= hash_key(key) < where.high <= HASH_SPACE
    assert part_of(None, count) == 0


@given(data=st.data(), keys=st.lists(st.sampled_from([None, b"a", b"b", b"c", b"d", b"e"]), min_size=1, max_size=40))
def test_every_record_of_a_part_is_handed_out_once_and_in_order(data: st.DataObject, keys: list[bytes | None]) -> None:
    """Parts come and go while the log is read, in steps of any size, and each goes on where it was committed."""
    count, log = 3, [record(position, key) for position, key in enumerate(keys, 1)]
    parts, committed = HeldParts("g", count), dict.fromkeys(range(count), 1)
    found: list[Record] = []
    reading = None
    for epoch in range(1, 200):
        step = data.draw(st.sampled_from(["open", "hand over", "read", "read", "commit"])) if epoch < 60 else "rest"
        absent = sorted(set(range(count)) - set(parts.numbers))
        if step in ("open", "rest") and absent:
            parts.opened([PartStands("g", absent[0], epoch, committed[absent[0]])])
            reading = None
        if step == "hand over" and parts.numbers:
            parts.leave([parts.numbers[0]])
            commit(parts, committed)
            parts.drop(parts.finished)
        if step in ("read", "rest") and parts.start is not None:
            reading = parts.start if reading is None else reading
            size = data.draw(st.integers(1, 9)) if step == "read" else len(log)
            records = [each for each in log if each.position >= reading][:size]
            found += parts.selected(records)
            reading = parts.frontier = records[-1].position + 1 if records else reading
        if step == "commit":
            commit(parts, committed)
    assert sorted(each.position for each in found) == [each.position for each in log]
    for part in range(count):
        mine = [each.position for each in found if part_of(each.key, count) == part]
        assert mine == sorted(mine)


def commit(parts: HeldParts, committed: dict[int, int]) -> None:
    commits = parts.commits()
    committed.update({each.part: max(each.position, committed[each.part]) for each in commits})
    stands = [PartStands("g", each.part, each.epoch, each.position) for each in commits]
    assert parts.settled(commits, stands) == ()


def test_what_was_handed_out_of_a_lost_part_cannot_be_committed_unnoticed() -> None:
    parts = HeldParts("g", 1)
    parts.opened([PartStands("g", 0, 5, 10)])
    assert parts.selected([record(9, b"a"), record(10, b"a")]) == [record(10, b"a")]
    parts.frontier = 11
    parts.drop([0])
    commits = parts.commits()
    assert (parts.numbers, commits) == ((), (CommitPosition("g", 0, 5, 11),))
    assert parts.settled(commits, [ConsumerRefused("g", "fenced", 6)]) == commits
    assert parts.commits() == ()


def test_nor_when_the_part_has_come_back_since() -> None:
    """A member that lost a part and got it again once wrote twice for what it had been handed out before."""
    parts = HeldParts("g", 1)
    parts.opened([PartStands("g", 0, 5, 10)])
    parts.frontier = 11
    parts.drop([0])
    parts.opened([PartStands("g", 0, 6, 10)])
    parts.frontier = 12
    old, new = CommitPosition("g", 0, 5, 11), CommitPosition("g", 0, 6, 12)
    assert parts.commits(parts.position) == (old, new)
    assert parts.settled((old, new), [ConsumerRefused("g", "fenced", 6), PartStands("g", 0, 6, 12)]) == (old,)
    assert parts.among([old]) == set(), "what it has now stays"
    assert parts.among([new]) == {0}
    assert (parts.numbers, parts.committed) == ((0,), 12)


@pytest.mark.parametrize("is_lost", [False, True])
def test_the_position_is_behind_what_was_handed_out_of_parts_that_go(is_lost: bool) -> None:
    """Else a transaction would not commit their records, and what is written for them would be written twice."""
    parts = HeldParts("g", 2)
    parts.opened([PartStands("g", 0, 5, 1)])
    parts.frontier = 10
    parts.opened([PartStands("g", 1, 6, 4)])
    parts.drop([0]) if is_lost else parts.leave([0])
    assert parts.position == 10
    assert CommitPosition("g", 0, 5, 10) in parts.commits(parts.position)


def test_a_part_that_stays_after_all_hands_out_what_it_left_out() -> None:
    parts = HeldParts("g", 1)
    parts.opened([PartStands("g", 0, 5, 1)])
    parts.frontier = 3
    parts.leave([0])
    parts.frontier = 9
    assert (parts.leaving, parts.finished, parts.start) == (frozenset({0}), frozenset(), None)
    assert parts.commits() == (CommitPosition("g", 0, 5, 3),)
    parts.stay([0])
    assert (parts.start, parts.selected([record(3, None)])) == (3, [record(3, None)])


def test_what_was_cleared_is_neither_held_nor_committed() -> None:
    parts = HeldParts("g", 2)
    parts.opened([PartStands("g", 0, 5, 1), PartStands("g", 1, 6, 1)])
    parts.frontier = 11
    parts.drop([0])
    assert len(parts.numbers) == 1
    assert len(parts.commits()) == 2
    parts.clear()
    assert not parts.numbers
    assert not parts.commits()
