"""Silent replicas, by facts: who is closed, removed or finalized, and what that waits for."""

from dataclasses import dataclass, field

import pytest
from tests.ordering.building import Driver, address

from ithaca.engines.scalog.ordering.decisions.failures import LOOKS, Act, Complete, FailureEffect, Failures
from ithaca.engines.scalog.ordering.decisions.spares import Spares, Warn
from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    CloseLane,
    Finalize,
    OpenLane,
    OrderingEntry,
    RegisterShard,
    RemoveReplica,
)
from ithaca.engines.scalog.ordering.outcomes import RefusedEntry
from ithaca.model.config.failures import Action, FailurePolicy
from ithaca.model.limits import FIRST_SIGN_S, SHARD_NUMBER_MAX
from ithaca.model.positions import LaneId
from ithaca.model.view import Address

DETECTION_MS = 800
LOOK_US = DETECTION_MS * 1000 // LOOKS
SPARE, NEXT, LAST = (Address("10.0.0.9", port) for port in (1, 2, 3))


@dataclass
class Term:
    """A shard, `silent` of whose replicas say nothing, and as many spares."""

    action: Action
    f: int = 1
    masking: bool = False
    spares: tuple[Address, ...] = ()
    driver: Driver = field(default_factory=Driver)
    now_us: int = 0

    def __post_init__(self) -> None:
        self.driver.shard(0, f=self.f, masking=self.masking)
        self.waiting: Spares[str] = Spares(self.driver.state)
        for spare in self.spares:
            self.waiting.enlist(spare, str(spare), 0.0)
        self.core = Failures(FailurePolicy(self.action, DETECTION_MS), self.driver.state, self.waiting, 0)
        self.hear()

    def hear(self, *silent: int, is_complete: bool | None = True) -> None:
        for shard in self.driver.state.shards.by_number.values():
            for each in shard.replicas:
                if each.replica not in silent:
                    self.core.heard(shard.shard, each.replica, is_complete)

    def look(self, *silent: int, times: int = LOOKS, is_complete: bool | None = True) -> list[FailureEffect]:
        """What the last of so many looks says, before each of which all but these were heard of."""
        effects: list[FailureEffect] = []
        for _ in range(times):
            self.hear(*silent, is_complete=is_complete)
            self.now_us += LOOK_US
            effects = [each for each in self.core.look(self.now_us) if not isinstance(each, Complete)]
        return effects


def entries(effects: list[FailureEffect]) -> list[OrderingEntry]:
    assert all(isinstance(effect, Act) for effect in effects), effects
    return [effect.entry for effect in effects if isinstance(effect, Act)]


def warnings(effects: list[FailureEffect]) -> str:
    assert all(isinstance(effect, Warn) for effect in effects), effects
    return "; ".join(effect.text for effect in effects if isinstance(effect, Warn))


ANSWERS: dict[str, tuple[Term, tuple[int, ...], list[OrderingEntry]]] = {
    "nobody is silent": (Term("replace", spares=(SPARE,)), (), []),
    "none is asked for": (Term("none", spares=(SPARE,)), (1,), []),
    "mask": (Term("mask", masking=True), (1,), [CloseLane(LaneId(0, 1, 1))]),
    "mask without masking": (Term("mask"), (1,), []),
    "mask, two at once": (Term("mask", f=2, masking=True), (1, 3), [CloseLane(LaneId(0, 1, 1))]),
    "replace": (Term("replace", spares=(SPARE,)), (1,), [RemoveReplica(0, 1, 1)]),
    "replace with masking": (Term("replace", masking=True, spares=(SPARE,)), (0,), [RemoveReplica(0, 1, 0)]),
    "replace, two at once": (
        Term("replace", f=2, masking=True, spares=(SPARE,)),
        (1, 4),
        [RemoveReplica(0, 1, 1)],
    ),
    "finalize": (
        Term("finalize-and-add", spares=(SPARE, NEXT)),
        (0,),
        [RegisterShard(1, 1, False, ((0, SPARE), (1, NEXT)))],
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_what_is_done_about_silent_replicas(case: str) -> None:
    term, silent, wanted = ANSWERS[case]
    assert term.look(*silent, times=LOOKS - 1) == []
    assert entries(term.look(*silent, times=1)) == wanted


def test_one_entry_at_a_time_is_under_way_about_a_shard() -> None:
    term = Term("mask", f=2, masking=True)
    (act,) = term.look(1, 3)
    assert isinstance(act, Act)
    assert term.look(1, 3, times=3) == []
    assert term.core.ordered(0, term.driver.apply(act.entry)) == []
    assert entries(term.look(1, 3, times=1)) == [CloseLane(LaneId(0, 3, 1))], "the other one's turn"


def test_what_was_not_taken_is_decided_again() -> None:
    term = Term("replace", spares=(SPARE,))
    assert entries(term.look(1)) == [RemoveReplica(0, 1, 1)]
    term.core.not_ordered(0)
    assert entries(term.look(1, times=1)) == [RemoveReplica(0, 1, 1)]


def test_what_was_refused_is_told_and_decided_again() -> None:
    term = Term("replace", spares=(SPARE,))
    (entry,) = entries(term.look(1))
    told = term.core.ordered(0, [RefusedEntry(entry, "the configuration has changed")])
    assert warnings(told) == "shard 0: RemoveReplica was refused: the configuration has changed"
    assert entries(term.look(1, times=1)) == [RemoveReplica(0, 1, 1)]


def test_nobody_is_removed_while_too_few_others_lack_nothing() -> None:
    """What is ordered is on f+1 replicas: the silent one may be the only one that has it all."""
    term = Term("replace", spares=(SPARE,))
    assert "too few others have all" in warnings(term.look(1, is_complete=False))
    term.hear(1, is_complete=None)
    assert "too few others have all" in warnings(term.look(1, times=1, is_complete=None)), "a report says nothing of it"
    assert entries(term.look(1, times=1, is_complete=True)) == [RemoveReplica(0, 1, 1)]


def test_with_masking_f_may_lack_something() -> None:
    term = Term("replace", masking=True, spares=(SPARE,))
    term.look(1)
    term = Term("replace", masking=True, spares=(SPARE,))
    for _ in range(LOOKS):
        term.core.heard(0, 0, True)
        term.core.heard(0, 2, False)
        effects = term.look(0, 1, 2, times=1)
    assert "too few others have all" in warnings(effects), "two of three are needed"


def test_nobody_is_removed_without_a_spare_or_a_learner() -> None:
    term = Term("replace")
    assert "no spare waits" in warnings(term.look(1))
    term.waiting.join(term.driver.state.shards.by_number[0], 2, SPARE, "link", 0.0)
    assert entries(term.look(1, times=1)) == [RemoveReplica(0, 1, 1)]


def test_shards_that_are_short_are_completed_at_every_look_and_the_absent_forgotten_now_and_then() -> None:
    term = Term("replace")
    forgets = []
    for _ in range(2 * LOOKS):
        term.hear()
        term.now_us += LOOK_US
        (complete,) = term.core.look(term.now_us)
        assert isinstance(complete, Complete)
        assert [shard.shard for shard in complete.shards] == [0]
        forgets.append(complete.forgets_absent)
    assert forgets == ([False] * (LOOKS - 1) + [True]) * 2


def test_a_leader_that_was_paused_accuses_nobody() -> None:
    term = Term("mask", masking=True)
    term.look()
    term.now_us += 100 * DETECTION_MS * 1000
    assert term.core.look(term.now_us) == []


def test_a_new_leader_waits_longer_for_whom_it_has_never_heard_of() -> None:
    term = Term("mask", masking=True)
    term.core = Failures(FailurePolicy("mask", DETECTION_MS), term.driver.state, term.waiting, term.now_us)
    looks = int(FIRST_SIGN_S * 1e6) // LOOK_US
    assert term.look(1, times=looks - 1) == []
    assert entries(term.look(1, times=1)) == [CloseLane(LaneId(0, 1, 1))]


def test_one_that_has_never_joined_is_missed_only_if_it_was_added() -> None:
    term = Term("replace", spares=(SPARE, NEXT))
    term.driver.apply(RegisterShard(1, 1, False, ((0, address(50)), (1, address(51)))))
    looks = int(FIRST_SIGN_S * 1e6) // LOOK_US
    for _ in range(looks + 1):
        term.core.heard(0, 0, True)
        term.core.heard(0, 1, True)
        term.now_us += LOOK_US
        assert not [each for each in term.core.look(term.now_us) if not isinstance(each, Complete)]
    shard = term.driver.state.shards.by_number[0]
    term.driver.apply(RemoveReplica(0, shard.epoch, 1))
    term.driver.apply(AddReplica(0, shard.epoch + 1, 2, LAST))
    assert entries(term.look(2, times=looks)) == [RemoveReplica(0, shard.epoch + 2, 2)]


def test_a_finalized_shard_is_left_alone() -> None:
    term = Term("mask", masking=True)
    term.driver.shard(1, f=1, masking=True)
    term.driver.apply(Finalize(0))
    assert term.driver.state.shards.by_number[0].phase == "finalized"
    term.hear()
    assert entries(term.look(1)) == [CloseLane(LaneId(1, 1, 1))]


class Finalizing(Term):
    """Two shards, each with a silent replica."""

    def __init__(self, *spares: Address) -> None:
        super().__init__("finalize-and-add", spares=spares)
        self.driver.shard(1)
        for replica in (0, 1):
            self.driver.apply(OpenLane(1, replica, 1))
        self.hear()


def test_the_new_shard_is_there_before_the_old_one_is_finalized() -> None:
    term = Term("finalize-and-add", spares=(SPARE, NEXT))
    (entry,) = entries(term.look(0))
    then = term.core.ordered(0, term.driver.apply(entry))
    assert entries(then) == [Finalize(0)]
    assert term.core.ordered(0, term.driver.apply(Finalize(0))) == []
    assert term.driver.state.shards.by_number[0].phase == "finalized"


def test_two_shards_get_different_spares_and_numbers() -> None:
    more = Address("10.0.0.9", 4)
    term = Finalizing(SPARE, NEXT, LAST, more)
    assert entries(term.look(0)) == [
        RegisterShard(2, 1, False, ((0, SPARE), (1, NEXT))),
        RegisterShard(3, 1, False, ((0, LAST), (1, more))),
    ]


def test_a_shard_for_which_too_few_spares_wait_is_told_to_people_and_waits() -> None:
    term = Finalizing(SPARE, NEXT, LAST)
    first, second = term.look(0)
    assert isinstance(first, Act)
    assert warnings([second]) == "replica 0 is silent in shard 1, and 1 spares are free: 2 are needed"
    term.core.not_ordered(0)
    assert isinstance(term.look(0, times=1)[0], Act), "what was reserved is free again"


def test_a_number_that_was_used_once_is_not_tried_again() -> None:
    term = Term("finalize-and-add", spares=(SPARE, NEXT))
    (entry,) = entries(term.look(0))
    assert warnings(term.core.ordered(0, [RefusedEntry(entry, "another shard has this number")]))
    (again,) = entries(term.look(0, times=1))
    assert isinstance(again, RegisterShard)
    assert again.shard == 2


def test_a_shard_that_somebody_finalizes_is_finalized_at_once() -> None:
    term = Term("finalize-and-add")
    term.driver.shard(1)
    term.driver.apply(Finalize(0, cuts=1))
    assert term.driver.state.shards.by_number[0].phase == "finalizing"
    assert Finalize(0) in entries([each for each in term.look(0) if isinstance(each, Act)])


def test_numbers_of_shards_have_an_end() -> None:
    term = Term("finalize-and-add", spares=(SPARE, NEXT))
    term.driver.apply(RegisterShard(SHARD_NUMBER_MAX, 0, False, ((0, address(60)),)))
    assert "is left for another" in warnings(term.look(0))
