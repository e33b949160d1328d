"""The rules of the order's time (`sim.scalog.order_clock`): whose word binds the next leader, how long parts live."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ithaca.engines.scalog.ordering.clock import OrderClock
from ithaca.engines.scalog.ordering.entries import OrderingEntry
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.engines.scalog.ordering.prepared.entries import ExpireParts, OpenPart, RenewParts
from ithaca.engines.scalog.ordering.prepared.outcomes import PartDropped, PartOpened, PartsRenewed, StagedPart
from ithaca.model.limits import CLOCK_LOOK_US, PART_INCARNATION_MIN
from ithaca.model.positions import LaneId
from ithaca.sim.process import EPOCH_US
from ithaca.sim.rules.witness import seen
from ithaca.sim.scalog.order_clock import TimeRules
from ithaca.sim.scalog.witness import ScalogWitness

S = 1_000_000
YEAR = 365 * 86_400 * S
VOTERS = (1, 2, 3)
LOOK_US = S // 10
TTL_US = 2 * S
HOME = LaneId(0, 0, 1)
PART = LaneId(0, 0, PART_INCARNATION_MIN)
TOKEN = bytes(16)


class World:
    """As much of one as the rule asks for: true time, and orderers whose clocks may be a year ahead."""

    def __init__(self) -> None:
        self.scheduler = SimpleNamespace(now_ns=0)
        self.hosts = {f"orderer-{server}": None for server in VOTERS}
        self.jumps = SimpleNamespace(extreme_us=lambda *_: YEAR)
        self.configuration = SimpleNamespace(retention_age_s=0)
        self.accused: list[str] = []

    def accuse(self, rule: str, text: str) -> None:
        self.accused.append(rule)


class Orderers:
    """Two of three: one leads, the other has heard it once and then nothing."""

    def __init__(self) -> None:
        self.world = World()
        self.rules = TimeRules(cast("Any", self.world))
        self._entries = 0
        self.former, self.next = OrderClock(3), OrderClock(1)
        for clock, server in ((self.former, 3), (self.next, 1)):
            clock.heard(2, EPOCH_US, EPOCH_US, 0, leads=False)
            clock.heard(4 - server, EPOCH_US, 0, 0, leads=False)
        self.order(self.lead(self.former, EPOCH_US))
        assert not self.world.accused

    @property
    def now_us(self) -> int:
        return int(self.world.scheduler.now_ns // 1000)

    def lead(self, clock: OrderClock, wall_us: int, ahead_us: int = 0) -> int:
        """Have it say the time, by clocks that all show this; `ahead_us` is what it says too much."""
        for server in {1, 2, 3} - {clock._server}:
            clock.heard(server, wall_us, 0, self.now_us, leads=False)
        return self.rules.leads(
            lambda *arguments: OrderClock.lead(*arguments) + ahead_us, clock, wall_us, VOTERS, self.now_us
        )

    def order(self, time_us: int, entry: OrderingEntry | None = None, outcome: Outcome | None = None) -> None:
        """An entry with this time is applied by somebody."""
        self._entries += 1
        state, outcomes = SimpleNamespace(time_us=time_us), [] if outcome is None else [outcome]
        self.rules.applied(cast("Any", state), self._entries, cast("Any", entry), outcomes)

    def say_between_looks(self) -> int:
        """The first one looks at the clocks, and says the time as it goes on from there a moment later."""
        self.wait(CLOCK_LOOK_US)
        self.lead(self.former, EPOCH_US)
        self.wait(CLOCK_LOOK_US // 2)
        witness = ScalogWitness(cast("Any", self.world), cast("Any", None), self.rules)
        with seen([sight for sight in witness.sights() if sight[0] is OrderClock]):
            time_us = self.former.recent(self.now_us)
        assert time_us is not None
        return time_us

    def open_part(self, time_us: int) -> None:
        part = StagedPart(PART, TOKEN, HOME, time_us + TTL_US)
        self.order(time_us, OpenPart(HOME, TOKEN, TTL_US, time_us), PartOpened(part))

    def renew_part(self, time_us: int) -> None:
        self.order(time_us, RenewParts(((PART, TOKEN),), TTL_US, time_us), PartsRenewed(()))

    def expire_part(self) -> None:
        time_us = self.former.read(self.now_us)
        self.order(time_us, ExpireParts((PART,), time_us), PartDropped(PART))

    def wait(self, us: int) -> None:
        self.world.scheduler.now_ns += us * 1000

    def pass_slowly(self, seconds: int) -> int:
        """The first one leads for so long, by clocks that are far behind: as slowly as may be."""
        said_us = 0
        for _ in range(seconds * S // LOOK_US):
            self.wait(LOOK_US)
            said_us = self.lead(self.former, EPOCH_US - YEAR)
        assert said_us == EPOCH_US + seconds * S * 9 // 10
        return said_us


@pytest.fixture
def orderers() -> Orderers:
    return Orderers()


def test_what_a_leader_said_and_nobody_heard_binds_the_next_one_to_nothing(orderers: Orderers) -> None:
    """The one was slow, the other is fast, and each has gone on from the same time."""
    orderers.pass_slowly(12)
    assert orderers.lead(orderers.next, EPOCH_US + YEAR) == EPOCH_US + 12 * S * 11 // 10
    assert not orderers.world.accused


def test_what_was_ordered_binds_the_next_leader(orderers: Orderers) -> None:
    orderers.order(orderers.pass_slowly(12))
    orderers.lead(orderers.next, EPOCH_US + YEAR)
    assert orderers.world.accused == ["order-time"]


def test_the_next_leader_leaps_no_further_than_time_has_passed_since_anything_was_ordered(orderers: Orderers) -> None:
    orderers.pass_slowly(12)
    orderers.lead(orderers.next, EPOCH_US + YEAR, ahead_us=S)
    assert orderers.world.accused == ["order-time"]


def test_a_leader_goes_on_from_its_own_word_whether_that_was_ordered_or_not(orderers: Orderers) -> None:
    orderers.pass_slowly(12)
    orderers.lead(orderers.former, EPOCH_US - YEAR, ahead_us=S)
    assert orderers.world.accused == ["order-time"]


def test_a_part_lives_from_when_its_leader_said_so_however_late_that_is_ordered(orderers: Orderers) -> None:
    time_us = orderers.say_between_looks()
    orderers.wait(3 * S)
    orderers.open_part(time_us)
    orderers.expire_part()
    assert not orderers.world.accused


def test_a_part_is_renewed_from_when_its_leader_said_so_however_late_that_is_ordered(orderers: Orderers) -> None:
    orderers.open_part(orderers.say_between_looks())
    renewed_us = orderers.say_between_looks()
    orderers.wait(3 * S)
    orderers.renew_part(renewed_us)
    orderers.expire_part()
    assert not orderers.world.accused


def test_a_part_that_has_not_had_its_time_since_it_was_renewed_is_missed(orderers: Orderers) -> None:
    orderers.open_part(orderers.say_between_looks())
    orderers.wait(S)
    orderers.renew_part(orderers.say_between_looks())
    orderers.wait(S)
    orderers.expire_part()
    assert orderers.world.accused == ["expiry"]
