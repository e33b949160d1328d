"""Spares and learners, by facts: who is told what, whose word counts, who is added, and who is let go."""

import pytest
from tests.ordering.building import Driver, report

from ithaca.engines.scalog.ordering.decisions import spares as decisions
from ithaca.engines.scalog.ordering.decisions.spares import (
    Admission,
    Appoint,
    SpareEffect,
    Spares,
    Supersede,
    Warn,
    WatchLearners,
)
from ithaca.engines.scalog.ordering.entries import AddReplica, Finalize, OpenLane, RegisterShard, RemoveReplica
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.model.errors import AddressInUse, IthacaError, NoSuchReplica, NoSuchShard, Overloaded
from ithaca.model.limits import LEARNER_NUMBER_LEAP_MAX, LEARNER_UNASKED_S
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Shard

AT, OTHER, THIRD = (Address("10.0.0.7", port) for port in (1, 2, 3))


class Term:
    """A state with one shard of two replicas, and the spares of a term; a link is a word."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.driver.shard(0)
        self.spares: Spares[str] = Spares(self.driver.state)

    @property
    def shard(self) -> Shard:
        return self.driver.state.shards.by_number[0]

    def enlist(self, address: Address, link: str = "link", now_s: float = 0.0) -> list[SpareEffect]:
        decided = self.spares.enlist(address, link, now_s)
        assert isinstance(decided, list)
        return decided

    def complete(self, now_s: float = 0.0, *, forgets_absent: bool = False) -> list[SpareEffect]:
        return self.spares.complete([self.shard], now_s, forgets_absent=forgets_absent)

    def short(self) -> None:
        """A replica of the shard is removed."""
        self.driver.apply(RemoveReplica(0, self.shard.epoch, self.shard.replicas[0].replica))


def admitted(term: Term, address: Address, now_s: float = 0.0, shard: int = 0) -> Admission:
    decided = term.spares.admit(shard, address, now_s)
    assert isinstance(decided, tuple)
    return decided[0]


def test_a_spare_waits_until_a_shard_is_short() -> None:
    term = Term()
    assert term.enlist(AT) == []
    assert term.complete() == []
    assert len(term.spares) == 1
    term.short()
    assert term.complete() == [WatchLearners(), Appoint(AT, 0, 2)]
    assert (len(term.spares), term.spares.learners_of(0)) == (0, 1)
    assert term.complete() == [], "one learns what is missing"


def test_those_that_wait_longest_are_taken_first_and_only_if_there_are_enough() -> None:
    term = Term()
    for address in (OTHER, AT):
        term.enlist(address)
    assert term.spares.take(2) == [OTHER, AT]
    assert term.spares.take(1) == [OTHER]
    assert term.spares.take(3) is None
    assert term.spares.take(1, reserved=[OTHER]) == [AT]
    assert term.spares.take(2, reserved=[OTHER]) is None


def test_a_shard_that_is_short_without_spares_is_told_to_people() -> None:
    term = Term()
    term.short()
    assert term.complete() == [Warn("shard 0 has 1 of 2 replicas: no spare waits")]


def test_a_spare_that_enlists_again_takes_the_place_of_its_former_link() -> None:
    term = Term()
    term.enlist(AT, "first")
    assert term.enlist(AT, "first") == []
    assert term.enlist(AT, "second") == [Supersede("first")]
    term.spares.lost("first")
    assert len(term.spares) == 1
    term.spares.lost("second")
    assert len(term.spares) == 0


def test_a_spare_is_what_the_view_has_at_its_address() -> None:
    term = Term()
    term.enlist(AT)
    term.driver.apply(RegisterShard(1, 0, False, ((0, AT),)))
    assert term.spares.view_changed() == [Appoint(AT, 1, 0)]
    assert term.enlist(AT) == [Appoint(AT, 1, 0)], "whoever leads"
    assert isinstance(term.spares.admit(0, AT, 0.0), AddressInUse)
    assert admitted(term, AT, shard=1) == Admission("added", 0)
    assert isinstance(term.spares.admit(7, AT, 0.0), NoSuchShard)


def test_a_learner_whose_disk_was_lost_learns_under_a_new_number() -> None:
    term = Term()
    term.enlist(AT)
    assert admitted(term, AT) == Admission("learning", 2)
    assert term.enlist(AT) == [WatchLearners(), Appoint(AT, 0, 3)], "under 2 it would not be believed"


def test_a_learner_in_whose_place_another_was_added_waits_again() -> None:
    term = Term()
    for address in (AT, OTHER):
        term.enlist(address)
        admitted(term, address)
    term.short()
    term.driver.apply(AddReplica(0, 2, 3, OTHER))
    assert term.spares.view_changed() == []
    assert term.enlist(AT) == []
    assert (len(term.spares), term.spares.learners_of(0)) == (1, 0)


def test_a_learner_that_does_not_come_back_is_given_up_at_the_second_look() -> None:
    term = Term()
    term.enlist(AT, "link")
    term.short()
    term.complete()
    term.spares.lost("link")
    assert admitted(term, AT) == Admission("absent")
    assert term.complete() == []
    term.enlist(OTHER)
    assert term.complete(forgets_absent=True) == [WatchLearners(), Appoint(OTHER, 0, 3)]


@pytest.mark.parametrize(
    ("replica", "address", "refusal"),
    [
        (2, AT, None),
        (2, OTHER, "there is no replica 2 of shard 0"),
        (1, OTHER, "there is no replica 1 of shard 0"),
        (3, None, "there is no replica 3 of shard 0"),
        (1 + LEARNER_NUMBER_LEAP_MAX, OTHER, None),
        (2 + LEARNER_NUMBER_LEAP_MAX, OTHER, "was told to be replica"),
    ],
    ids=["itself again", "another's number", "used", "no spare", "last number", "beyond"],
)
def test_who_may_learn(replica: int, address: Address | None, refusal: str | None) -> None:
    term = Term()
    assert term.spares.join(term.shard, 2, AT, "link", 0.0) == [WatchLearners()]
    decided = term.spares.join(term.shard, replica, address, "link", 0.0)
    if refusal is None:
        assert decided == [WatchLearners()]
    else:
        assert isinstance(decided, NoSuchReplica)
        assert refusal in str(decided)


def test_a_number_that_a_learner_said_is_not_given_to_another() -> None:
    term = Term()
    term.spares.join(term.shard, 5, AT, "link", 0.0)
    term.enlist(OTHER)
    assert admitted(term, OTHER) == Admission("learning", 6)


def test_spares_and_learners_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "SPARES_MAX", 1)
    term = Term()
    term.enlist(AT)
    assert isinstance(term.spares.enlist(OTHER, "link", 0.0), Overloaded)
    assert isinstance(term.enlist(AT, "again"), list), "who waits already may"
    term.spares.join(term.shard, 2, OTHER, "link", 0.0)
    assert isinstance(term.spares.join(term.shard, 3, THIRD, "link", 0.0), Overloaded)
    term.short()
    term.spares.lost("link")
    assert admitted(term, AT) == Admission("absent"), "there are learners enough"
    term.driver.apply(AddReplica(0, 2, 2, OTHER))
    term.spares.view_changed()
    assert admitted(term, AT) == Admission("learning", 4 - 1)


class Learning(Term):
    """A shard that is short of a replica, for which 0/2 learns; its lane has one record ordered."""

    def __init__(self) -> None:
        super().__init__()
        self.lane = LaneId(0, 1, 1)
        self.driver.cut({self.lane: 1})
        self.enlist(AT)
        self.short()
        self.complete()
        self.leader = CutProposer(self.driver.state)

    def report(self, length: int, *, runs_cut: int = 1, replica: int = 2) -> AddReplica | IthacaError | None:
        said = report(0, replica, {LaneId(0, 0, 1): 0, self.lane: length}, epoch=self.shard.epoch, runs_cut=runs_cut)
        assert self.leader.receive(said)
        return self.spares.reported(self.leader, said)


def test_a_learner_is_added_once_it_has_all_that_is_ordered_with_the_positions() -> None:
    term = Learning()
    assert term.report(0, runs_cut=0) is None
    assert term.report(1, runs_cut=0) is None
    assert term.report(1) == AddReplica(0, 2, 2, AT)


def test_one_learner_at_a_time_is_added_to_a_shard() -> None:
    term = Learning()
    assert term.report(1) is not None
    assert term.report(1) is None
    term.spares.added(0)
    assert term.report(1) is not None


def test_nobody_is_added_to_a_shard_that_is_complete_but_to_one_that_is_finalized() -> None:
    term = Term()
    term.driver.shard(1)
    term.spares.join(term.shard, 2, AT, "link", 0.0)
    leader = CutProposer(term.driver.state)
    said = report(0, 2, {})
    leader.receive(said)
    assert term.spares.reported(leader, said) is None
    term.driver.apply(Finalize(0))
    said = report(0, 2, {}, epoch=term.shard.epoch)
    leader.receive(said)
    assert term.spares.reported(leader, said) == AddReplica(0, term.shard.epoch, 2, AT)


def test_whole_is_also_who_says_so_in_pieces() -> None:
    term = Learning()
    epoch = term.shard.epoch
    for lengths in ({LaneId(0, 0, 1): 0}, {term.lane: 1}, {LaneId(0, 0, 1): 0}):
        said = report(0, 2, lengths, epoch=epoch)
        assert term.leader.receive(said)
        term.spares.reported(term.leader, said)
    assert admitted(term, AT) == Admission("whole", 2)


def test_whole_means_all_that_was_due_when_it_reported_before() -> None:
    term = Learning()
    term.leader = CutProposer(term.driver.state)
    assert admitted(term, AT) == Admission("learning", 2)
    term.report(0, runs_cut=0)
    assert admitted(term, AT) == Admission("learning", 2), "nothing was due before its first report"
    term.report(0, runs_cut=0)
    assert admitted(term, AT) == Admission("learning", 2)
    term.report(1, runs_cut=0)
    assert admitted(term, AT) == Admission("whole", 2), "under load it never has all"


def test_whoever_is_no_learner_is_not_added() -> None:
    term = Learning()
    term.driver.apply(OpenLane(0, 1, 1))
    assert term.report(1, replica=1) is None


def test_a_learner_is_let_go_only_while_nobody_wants_it() -> None:
    term = Term()
    term.enlist(AT)
    assert term.spares.unasked_in_s(0.0) is None
    admitted(term, AT, 0.0)
    assert term.spares.unasked_in_s(0.0) == LEARNER_UNASKED_S
    admitted(term, AT, LEARNER_UNASKED_S - 1)
    assert not term.spares.unasked(2 * LEARNER_UNASKED_S - 2)
    late_s = 2 * LEARNER_UNASKED_S
    ((address, learner),) = term.spares.unasked(late_s)
    assert isinstance(term.spares.let_go(address, learner, late_s), NoSuchReplica)
    assert term.spares.learners_of(0) == 0
    assert term.spares.let_go(address, learner, late_s) is None, "it is gone already"


def test_a_learner_of_a_shard_that_is_short_is_wanted() -> None:
    term = Learning()
    ((address, learner),) = term.spares.unasked(LEARNER_UNASKED_S)
    term.complete(LEARNER_UNASKED_S)
    assert term.spares.let_go(address, learner, LEARNER_UNASKED_S) is None
    assert term.spares.learners_of(0) == 1


def test_a_learner_that_may_be_the_one_that_is_being_added_is_not_let_go() -> None:
    term = Learning()
    assert term.report(1) is not None
    ((address, learner),) = term.spares.unasked(LEARNER_UNASKED_S)
    assert term.spares.let_go(address, learner, LEARNER_UNASKED_S) is None
    term.spares.added(0)
    assert term.spares.let_go(address, learner, LEARNER_UNASKED_S) is not None


def test_a_learner_that_comes_back_is_not_asked_for_by_that() -> None:
    term = Term()
    term.spares.join(term.shard, 2, AT, "first", 0.0)
    term.spares.join(term.shard, 2, AT, "second", LEARNER_UNASKED_S)
    assert len(term.spares.unasked(LEARNER_UNASKED_S)) == 1
    term.spares.join(term.shard, 3, AT, "third", LEARNER_UNASKED_S)
    assert not term.spares.unasked(LEARNER_UNASKED_S), "another number is another errand"
