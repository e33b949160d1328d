"""Groups in the table of consumers, and in the memory of whoever leads."""

import pytest

from ithaca.consumers import table as table_module
from ithaca.consumers.groups import GroupBook
from ithaca.consumers.limits import PARTS_ANSWERED_MAX
from ithaca.consumers.table import ConsumerChanges, ConsumerTable, page
from ithaca.model.consumers import (
    CommitPosition,
    ConsumerCommand,
    ConsumerOutcome,
    ConsumerPart,
    ConsumerRefused,
    ConsumerState,
    DeleteConsumer,
    GroupStands,
    MakeGroup,
    OpenConsumer,
    OpenGroupPart,
    PartStands,
    ResetConsumer,
)
from ithaca.model.errors import InvalidInput, NoSuchConsumer, Overloaded
from ithaca.model.groups import GroupBeat
from ithaca.model.limits import GROUP_MEMBERS_MAX, GROUP_PARTS


def applied(table: ConsumerTable, *commands: ConsumerCommand) -> tuple[ConsumerOutcome, ...]:
    return table.apply(ConsumerChanges(commands, 7))


def test_a_group_is_made_once_and_stays_as_it_is() -> None:
    table = ConsumerTable()
    assert applied(table, MakeGroup("g", 5, 3), MakeGroup("g", 9, 3), MakeGroup("g", 9)) == (GroupStands("g", 3),) * 3
    assert applied(table, MakeGroup("h", 5)) == (GroupStands("h", GROUP_PARTS),)
    assert table.by_name["g"].position == 5
    for command in (MakeGroup("g", 5, 4), OpenConsumer("g", 7, 1), OpenGroupPart("g", 3, 7)):
        (refused,) = applied(table, command)
        assert isinstance(refused, ConsumerRefused)
        assert refused.reason == "group"
    assert ConsumerTable(table.packed()).packed() == table.packed()


def test_parts_are_fenced_and_moved_one_by_one() -> None:
    """Invariants 2 and 3."""
    table = ConsumerTable()
    applied(table, MakeGroup("g", 5, 2))
    assert applied(table, CommitPosition("g", 0, table.stamp, 9)) == (ConsumerRefused("g", "fenced", 1),)
    (first, other) = applied(table, OpenGroupPart("g", 0, 7), OpenGroupPart("g", 1, 7))
    assert isinstance(first, PartStands)
    assert isinstance(other, PartStands)
    assert applied(table, OpenGroupPart("g", 0, 7)) == (first,)
    applied(table, CommitPosition("g", 0, first.epoch, 9))
    (newer,) = applied(table, OpenGroupPart("g", 0, 8))
    assert isinstance(newer, PartStands)
    assert (newer.position, newer.epoch > first.epoch) == (9, True)
    assert applied(table, CommitPosition("g", 0, first.epoch, 12)) == (ConsumerRefused("g", "fenced", newer.epoch),)
    assert applied(table, CommitPosition("g", 1, other.epoch, 6)) == (PartStands("g", 1, other.epoch, 6),)
    assert [part.position for part in table.by_name["g"].parts] == [9, 6]
    applied(table, ResetConsumer("g", 99, table.by_name["g"].stamp, 3))
    assert [(part.position, part.owner) for part in table.by_name["g"].parts] == [(3, 99), (3, 99)]


def test_there_is_room_for_so_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 5."""
    monkeypatch.setattr(table_module, "CONSUMER_PARTS_TOTAL_MAX", 5)
    table = ConsumerTable()
    assert applied(table, MakeGroup("g", 1, 3), MakeGroup("h", 1, 3))[1] == ConsumerRefused("h", "full")
    applied(table, DeleteConsumer("g", table.by_name["g"].made))
    assert applied(table, MakeGroup("h", 1, 3)) == (GroupStands("h", 3),)


def test_a_page_of_the_list_is_bounded_by_parts() -> None:
    group = ConsumerState("g", 1, 1, 0, (ConsumerPart(1, 0, 1),) * (PARTS_ANSWERED_MAX // 2), is_group=True)
    assert len(page([group] * 5)) == 2
    huge = ConsumerState("h", 1, 1, 0, (ConsumerPart(1, 0, 1),) * (PARTS_ANSWERED_MAX + 1), is_group=True)
    assert len(page([huge, huge])) == 1


def beat(member: int, *holds: int, number: int = 1, name: str = "g") -> GroupBeat:
    return GroupBeat(name, member, number, holds, 10_000, label=f"host:{member}")


def test_who_takes_part_in_what_is_not_there_is_told() -> None:
    table, book = ConsumerTable(), GroupBook(0.0)
    applied(table, OpenConsumer("alone", 7, 1))
    with pytest.raises(NoSuchConsumer, match="'g'"):
        book.beat(table, beat(1), 0.0)
    with pytest.raises(InvalidInput, match="alone"):
        book.beat(table, beat(1, name="alone"), 0.0)
    with pytest.raises(NoSuchConsumer):
        book.members(table, "g", 0.0)


def test_a_group_that_was_made_again_begins_again() -> None:
    table, book = ConsumerTable(), GroupBook(0.0)
    applied(table, MakeGroup("g", 1, 2))
    assert book.beat(table, beat(1), 0.0).granted == (0, 1)
    assert [(each.label, each.parts) for each in book.members(table, "g", 0.5)] == [("host:1", (0, 1))]
    applied(table, DeleteConsumer("g", table.by_name["g"].made), MakeGroup("g", 1, 3))
    assert book.members(table, "g", 0.5) == ()
    assert book.beat(table, beat(2), 1.0).granted == (0, 1, 2)


def test_members_are_bounded() -> None:
    table, book = ConsumerTable(), GroupBook(0.0)
    applied(table, MakeGroup("g", 1, 2))
    for member in range(1, GROUP_MEMBERS_MAX + 1):
        book.beat(table, beat(member), 0.0)
    with pytest.raises(Overloaded, match="members"):
        book.beat(table, beat(GROUP_MEMBERS_MAX + 1), 0.0)
    assert book.beat(table, beat(1, number=2), 0.0).granted == (0,)
