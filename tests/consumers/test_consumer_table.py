"""The table of consumers, by the numbers of `ithaca.consumers`."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ithaca.consumers.idle import IdleConsumers
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
