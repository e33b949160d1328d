"""What Raft agrees on: projections that follow one another."""

from uuid import UUID

from ithaca.engines.corfu.sequencing.calls import Known
from ithaca.engines.corfu.sequencing.commands import (
    AddUnit,
    Command,
    ExpireSession,
    FoundLog,
    Grant,
    Joined,
    NextEpoch,
    OpenSession,
    Outcome,
    SessionIs,
    Settled,
    TrimLog,
    Void,
)
from ithaca.engines.corfu.sequencing.projection import Range, UnitMember
from ithaca.engines.corfu.sequencing.state import ProjectionState
from ithaca.model.view import Address

MEMBERS = tuple(UnitMember(each, Address("unit", each), UUID(int=each)) for each in (1, 2, 3, 4))


class Group:
    """A state, and the index of its last entry."""

    def __init__(self) -> None:
        self.state = ProjectionState()
        self.apply(FoundLog(UUID(int=9), MEMBERS, ((1, 2), (3, 4)), 1, 100))

    def apply(self, command: Command) -> Outcome:
        outcome = self.state.apply(self.state.index + 1, command)
        assert ProjectionState.restored(self.state.snapshot()).snapshot() == self.state.snapshot()
        return outcome

    def known(self, command: Command) -> Known:
        outcome = self.apply(command)
        assert isinstance(outcome, Known), outcome
        return outcome

    def void(self, command: Command) -> str:
        outcome = self.apply(command)
        assert isinstance(outcome, Void), outcome
        return outcome.reason


def following(epoch: int = 1, sealed: tuple[int, ...] = (1, 2, 3, 4), highest: int = 7, **changes: object) -> NextEpoch:
    sets = tuple(tuple(unit for unit in chain if unit in sealed) for chain in ((1, 2), (3, 4)))
    fields = {"sets": sets, "sequencer": 1, "grant": 50, "time_us": 5, **changes}
    return NextEpoch(epoch=epoch, sealed=sealed, highest=highest, **fields)  # type: ignore[arg-type]


def test_nothing_is_decided_before_the_log_is_founded() -> None:
    assert isinstance(ProjectionState().apply(1, Grant(1, 5)), Void)
    assert "before" in Group().void(FoundLog(UUID(int=8), MEMBERS, ((1, 2),), 1, 5))


def test_rows_rotate_over_sets() -> None:
    projection = Group().known(Grant(1, 5)).projection
    assert [projection.chain(row) for row in range(4)] == [(1, 2), (3, 4), (1, 2), (3, 4)]


def test_the_next_epoch_starts_at_the_bound_and_what_lies_between_is_empty() -> None:
    known = Group().known(following(sealed=(2, 3, 4)))
    projection = known.projection
    assert projection.epoch == 2
    assert projection.ranges == (Range(0, ((2,), (3, 4))), Range(8), Range(100, ((2,), (3, 4))))
    assert (projection.chain(7), projection.chain(8), projection.chain(99), projection.start) == ((3, 4), (), (), 100)
    assert [unit.number for unit in projection.units] == [2, 3, 4]
    assert (known.bound, known.time_us) == (150, 5)


def test_an_epoch_without_rows_leaves_no_range() -> None:
    group = Group()
    group.apply(following(highest=-1))
    projection = group.known(following(2, highest=-1)).projection
    assert projection.ranges == (Range(0), Range(150, ((1, 2), (3, 4))))


def test_an_epoch_whose_rows_were_all_used_leaves_no_gap() -> None:
    assert Group().known(following(highest=99)).projection.ranges == (
        Range(0, ((1, 2), (3, 4))),
        Range(100, ((1, 2), (3, 4))),
    )


def test_each_projection_follows_one() -> None:
    group = Group()
    group.apply(following())
    assert "followed by another" in group.void(following())
    assert "followed by another" in group.void(following(epoch=3))


def test_every_chain_needs_a_unit_that_was_sealed() -> None:
    assert "units 1, 2" in Group().void(following(sealed=(3, 4), sets=((3, 4),)))


def test_refuses_what_cannot_be() -> None:
    group = Group()
    assert "never granted" in group.void(following(highest=100))
    assert "in two" in group.void(following(sets=((1, 2), (2, 3))))
    assert "was not sealed" in group.void(following(sealed=(1, 2, 3), sets=((1, 2), (3, 4))))


def test_units_that_were_removed_never_return() -> None:
    group = Group()
    group.apply(following(sealed=(1, 3, 4)))
    assert "was not sealed" in group.void(following(2, sealed=(1, 2, 3, 4)))
    known = group.known(AddUnit(Address("unit", 2), UUID(int=2)))
    assert [unit.number for unit in known.projection.units] == [1, 3, 4, 5]
    assert group.known(AddUnit(Address("unit", 2), UUID(int=2))) == known, "the same again is the same"


def test_a_copy_joins_a_settled_range_alone() -> None:
    group = Group()
    group.apply(following(sealed=(1, 3, 4)))
    group.apply(AddUnit(Address("unit", 5), UUID(int=5)))
    joined = (Joined(0, 0, 5),)
    again = following(2, sealed=(1, 3, 4, 5), sets=((1, 5), (3, 4)), joined=joined)
    assert "not settled" in group.void(again)
    group.apply(Settled(2))
    assert group.known(again).projection.ranges[0] == Range(0, ((1, 5), (3, 4)))
    assert "not settled" in group.void(following(3, sealed=(1, 3, 4, 5), joined=(Joined(150, 0, 5),)))


def test_what_names_another_epoch_is_void() -> None:
    group = Group()
    group.apply(following())
    assert "epoch 1 is not 2" in group.void(Grant(1, 1000))
    assert "epoch 1 is not 2" in group.void(Settled(1))
    assert "epoch 1 is not 2" in group.void(TrimLog(1, 5))
    assert group.known(Grant(2, 1000)).bound == 1000
    assert group.known(Settled(2)).projection.settled == 100
    assert "has begun before" in group.void(Settled(2))
    assert group.known(TrimLog(2, 70)).trim == 70
    assert group.known(TrimLog(2, 60)).trim == 70, "what was trimmed stays so"


def test_opening_a_session_raises_its_epoch() -> None:
    group = Group()
    first, other, again = (group.apply(OpenSession(name)) for name in ("a", "b", "a"))
    assert isinstance(first, SessionIs)
    assert isinstance(other, SessionIs)
    assert isinstance(again, SessionIs)
    assert (first.producer, first.epoch, other.producer, again.producer, again.epoch) == (1, 1, 2, 1, 2)
    assert group.state.sessions.fences == ((1, 2),)
    group.apply(ExpireSession("a"))
    fresh = group.apply(OpenSession("a"))
    assert isinstance(fresh, SessionIs)
    assert (fresh.producer, fresh.epoch) == (3, 1), "another session, of the same name"
