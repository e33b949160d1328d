"""The table of consumers, by the numbers of `ithaca.consumers`."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ithaca.consumers.holding import ConsumerHold
from ithaca.consumers.idle import IdleConsumers
from ithaca.consumers.lagging import TailTimes
from ithaca.consumers.limits import CONSUMERS_BUSY, HELD_MAX
from ithaca.consumers.table import ConsumerChanges, ConsumerTable, PackedConsumers
from ithaca.model.consumers import (
    CommitPosition,
    ConsumerCommand,
    ConsumerGone,
    ConsumerOutcome,
    ConsumerRefused,
    DeleteConsumer,
    ExpireConsumer,
    OpenConsumer,
    PartStands,
    ResetConsumer,
    refusal_error,
)
from ithaca.model.errors import NamesFull
from ithaca.model.limits import CONSUMER_NAME_BYTES_MAX, CONSUMERS_MAX
from ithaca.model.records import Retention
from ithaca.server.consumers import RecentConsumers


def asked(table: ConsumerTable, *commands: ConsumerCommand, time_us: int = 0) -> tuple[ConsumerOutcome, ...]:
    return table.apply(ConsumerChanges(commands, time_us))


def opened(table: ConsumerTable, name: str, owner: int, start: int = 1) -> PartStands:
    (outcome,) = asked(table, OpenConsumer(name, owner, start))
    assert isinstance(outcome, PartStands)
    return outcome


NAMES = st.sampled_from(["a", "b", "c"])
SMALL = st.integers(1, 12)
COMMANDS = st.one_of(
    st.builds(OpenConsumer, NAMES, st.integers(1, 4), SMALL),
    st.builds(CommitPosition, NAMES, st.integers(0, 1), SMALL, SMALL),
    st.builds(ResetConsumer, NAMES, st.integers(5, 8), SMALL, SMALL),
    st.builds(DeleteConsumer, NAMES, SMALL),
    st.builds(ExpireConsumer, NAMES, SMALL),
)


@given(st.lists(st.lists(COMMANDS, min_size=1, max_size=4), max_size=20), st.integers(0, 19))
@settings(max_examples=300, deadline=None)
def test_1_2_3_entries_mean_the_same_from_any_snapshot_on(entries: list[list[ConsumerCommand]], cut: int) -> None:
    """A second table goes on from a snapshot, a third takes each command by itself; positions and epochs only rise."""
    whole, one_by_one = ConsumerTable(), ConsumerTable()
    resumed: ConsumerTable | None = None
    epochs: set[int] = set()
    for number, commands in enumerate(entries):
        if number == cut:
            packed = msgspec.msgpack.decode(msgspec.msgpack.encode(whole.packed()), type=PackedConsumers)
            resumed = ConsumerTable(packed)
        before = dict(whole.by_name)
        stamp = whole.stamp
        outcomes = asked(whole, *commands, time_us=number)
        assert outcomes == tuple(asked(one_by_one, each, time_us=number)[0] for each in commands)
        if resumed is not None:
            assert asked(resumed, *commands, time_us=number) == outcomes
        resets = {each.name for each in commands if isinstance(each, ResetConsumer | DeleteConsumer | ExpireConsumer)}
        for name, now in whole.by_name.items():
            was = before.get(name)
            if was is not None and name not in resets:
                assert now.position >= was.position
            if was is None or was.parts[0].epoch != now.parts[0].epoch:
                assert now.parts[0].epoch not in epochs
                assert now.parts[0].epoch > stamp
            epochs.add(now.parts[0].epoch)
    assert whole.packed() == one_by_one.packed() == (resumed or whole).packed()
    assert len(msgspec.msgpack.encode(whole.packed())) <= whole.size_bytes + 64
    assert whole.part_count == sum(len(each.parts) for each in whole.by_name.values())


def test_3_a_commit_of_a_fenced_handle_changes_nothing() -> None:
    table = ConsumerTable()
    older = opened(table, "a", 1)
    newer = opened(table, "a", 2)
    before = table.packed()
    (told,) = asked(table, CommitPosition("a", 0, older.epoch, 9))
    assert told == ConsumerRefused("a", "fenced", newer.epoch)
    assert table.packed() == before
    assert asked(table, CommitPosition("a", 0, newer.epoch, 9)) == (PartStands("a", 0, newer.epoch, 9),)


def test_3_another_consumer_of_the_name_has_other_epochs() -> None:
    table = ConsumerTable()
    older = opened(table, "a", 1)
    asked(table, DeleteConsumer("a", table.by_name["a"].made))
    newer = opened(table, "a", 2, start=5)
    assert newer.epoch > older.epoch
    assert asked(table, CommitPosition("a", 0, older.epoch, 9)) == (ConsumerRefused("a", "fenced", newer.epoch),)
    assert table.by_name["a"].position == 5


def test_4_what_comes_twice_is_done_once() -> None:
    table = ConsumerTable()
    assert opened(table, "a", 1) == opened(table, "a", 1)
    stamp = table.by_name["a"].stamp
    reset = ResetConsumer("a", 7, stamp, 4)
    first = asked(table, reset)
    assert first == asked(table, reset) == (PartStands("a", 0, table.by_name["a"].parts[0].epoch, 4),)
    made = table.by_name["a"].made
    assert asked(table, DeleteConsumer("a", made), DeleteConsumer("a", made)) == (ConsumerGone("a"),) * 2


def test_4_a_reset_that_comes_late_finds_the_consumer_used() -> None:
    table = ConsumerTable()
    handle = opened(table, "a", 1)
    stamp = table.by_name["a"].stamp
    asked(table, CommitPosition("a", 0, handle.epoch, 9))
    (told,) = asked(table, ResetConsumer("a", 7, stamp, 1))
    assert told == ConsumerRefused("a", "used", handle.epoch)
    assert table.by_name["a"].position == 9


def test_5_another_name_is_refused_when_all_are_taken() -> None:
    table = ConsumerTable()
    for number in range(CONSUMERS_MAX):
        opened(table, f"{number:0{CONSUMER_NAME_BYTES_MAX}}", 1 << 60, start=1 << 60)
    (told,) = asked(table, OpenConsumer("one more", 1, 1))
    assert told == ConsumerRefused("one more", "full")
    assert isinstance(refusal_error(told), NamesFull)
    assert len(msgspec.msgpack.encode(table.packed())) <= table.size_bytes
    name = next(iter(table.by_name))
    asked(table, DeleteConsumer(name, table.by_name[name].made))
    opened(table, "one more", 1)


def test_idle_ones_expire_and_those_in_use_do_not() -> None:
    table, idle = ConsumerTable(), IdleConsumers(10)
    handle = opened(table, "used", 1)
    opened(table, "left", 1)
    assert idle.look(table, 0) == []
    asked(table, CommitPosition("used", 0, handle.epoch, 1))
    assert idle.look(table, 9.9) == []
    (expired,) = idle.look(table, 10)
    assert expired.name == "left"
    assert asked(table, expired) == (ConsumerGone("left"),)
    assert idle.look(table, 19) == []
    late = idle.look(table, 20)
    asked(table, CommitPosition("used", 0, handle.epoch, 1))
    assert asked(table, *late) == (ConsumerRefused("used", "used", handle.epoch),)


@pytest.mark.parametrize("name", ["", "x" * (CONSUMER_NAME_BYTES_MAX + 1)])
def test_commands_from_outside_are_checked(name: str) -> None:
    wrong: Any = ConsumerChanges((OpenConsumer(name, 1, 1),))
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(wrong), type=ConsumerChanges)


def test_retention_waits_for_those_that_are_named_and_not_for_ever() -> None:
    table = ConsumerTable()
    slow, other = opened(table, "slow", 1), opened(table, "other", 1)
    asked(table, CommitPosition("slow", 0, slow.epoch, 5))
    hold = ConsumerHold.of(Retention("1h", keep_for_consumers=["slow", "nobody"], keep_for=10))
    assert hold is not None
    assert hold.allowed(3, table, 0) == 3
    assert hold.allowed(8, table, 1) == 5
    assert hold.allowed(9, table, 10.9) == 5
    assert hold.allowed(9, table, 11) == 8
    asked(table, CommitPosition("slow", 0, slow.epoch, 20))
    assert hold.allowed(12, table, 12) == 12
    everybody = ConsumerHold.of(Retention(bytes=1, keep_for_consumers=True, keep_for=10))
    assert everybody is not None
    assert everybody.allowed(12, table, 0) == 1
    asked(table, CommitPosition("other", 0, other.epoch, 7))
    assert everybody.allowed(12, table, 1) == 7
    asked(table, DeleteConsumer("other", table.by_name["other"].made))
    assert everybody.allowed(12, table, 2) == 12
    assert ConsumerHold.of(Retention("1h")) is None


def test_what_is_held_back_is_bounded_and_never_let_go_too_early() -> None:
    table = ConsumerTable()
    opened(table, "slow", 1)
    hold = ConsumerHold(None, 2 * HELD_MAX)
    for now_s in range(5 * HELD_MAX):
        allowed = hold.allowed(2 + now_s, table, now_s)
        assert allowed <= max(1, 2 + now_s - 2 * HELD_MAX)
    assert allowed > 1
    assert len(hold._wanted) <= HELD_MAX + 1


def test_since_when_a_consumer_is_behind() -> None:
    table, tails = ConsumerTable(), TailTimes()
    handle = opened(table, "a", 1)
    for tail, now_s in ((1, 0.0), (5, 10.0), (6, 10.5), (9, 20.0)):
        tails.note(tail, now_s)
    assert tails.lags(table, 9, 30.0) == [("a", 1, 8, 20.0)]
    asked(table, CommitPosition("a", 0, handle.epoch, 5))
    assert tails.lags(table, 9, 30.0) == [("a", 5, 4, 10.0)]
    asked(table, CommitPosition("a", 0, handle.epoch, 9))
    assert tails.lags(table, 9, 30.0) == [("a", 9, 0, 0.0)]


def test_only_when_many_consumers_commit_they_wait_for_each_other() -> None:
    recent = RecentConsumers()
    for number in range(10_000):
        recent.note((CommitPosition("alone", 0, 1, 1),), number / 1000)
    assert not recent.is_busy
    for number in range(CONSUMERS_BUSY + 1):
        recent.note((CommitPosition(f"c{number}", 0, 1, 1),), 20.0)
    assert recent.is_busy
    recent.note((CommitPosition("alone", 0, 1, 1),), 21.0)
    assert recent.is_busy
    recent.note((CommitPosition("alone", 0, 1, 1),), 22.0)
    assert not recent.is_busy
