"""Leaders that come and go, late entries, lost reports, restarts and replacements, each run from a seed.

A seed that ever failed stays here by its number.
"""

from collections import Counter

import pytest
from tests.ordering.ordering_world import Violation, World

from ithaca.engines.scalog.ordering.lanes import NEVER, LaneTable
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.outcomes import ViewChanged
from ithaca.engines.scalog.ordering.reports import Report, Reports
from ithaca.engines.scalog.ordering.retention import Retention
from ithaca.model.cut import LaneLengths, Vector
from ithaca.model.view import Shard

SAMPLE_SEEDS = 120
CAMPAIGN_SEEDS = 3000
PLANTED_SEEDS_MAX = 300

HAPPENS = [
    "leaders",
    "committed late",
    "restarts",
    "reports dropped",
    "forgotten",
    "OrderedCut",
    "LaneClosed",
    "FinalizedShard",
    "RefusedEntry",
]


def counts_of(seeds: range) -> Counter[str]:
    """Run the seeds; any violation raises. Adds up what happened."""
    total: Counter[str] = Counter()
    for seed in seeds:
        world = World(seed).run()
        total.update(world.counts)
        total["records"] += world.state.tail - 1
        total["replaced"] += sum(shard.epoch > 2 for shard in world.state.view.shards)
    return total


@pytest.mark.parametrize("start", range(0, SAMPLE_SEEDS, 20))
def test_a_sample_of_seeds_holds_every_property(start: int) -> None:
    """Invariants 1 to 7, 10 and 12, after every entry."""
    total = counts_of(range(start, start + 20))
    assert total["records"] > 1000
    assert total["replaced"] > 0
    assert [name for name in HAPPENS if not total[name]] == []


@pytest.mark.campaign
@pytest.mark.parametrize("start", range(0, CAMPAIGN_SEEDS, 300))
def test_the_campaign_holds_every_property(start: int) -> None:
    assert counts_of(range(start, start + 300))["records"] > 10_000


def test_a_seed_reproduces_its_run() -> None:
    """Invariant 1."""
    assert World(5).run().state == World(5).run().state
    assert World(5).run().state != World(6).run().state


# Planted bugs: each must be seen by the seeds.

_grown, _gate, _receive = LaneTable._grown, LaneTable.gate, CutProposer.receive


def any_length(self: LaneTable, moved: LaneLengths, view: int) -> tuple[Vector, LaneLengths]:
    """Takes the newest length, not the longest."""
    lengths, self.lengths = self.lengths, self.lengths * 0 - 1
    try:
        return _grown(self, moved, view)
    finally:
        self.lengths = lengths


def any_configuration(self: LaneTable, shard: int, since: int) -> None:
    """Cuts of every configuration count, as long as the shard has enough replicas."""
    _gate(self, shard, since if since == NEVER else 0)


def short_shards_too(self: LaneTable, shard: int, _since: int) -> None:
    _gate(self, shard, 0)


def works_out_at_once(self: CutProposer, report: Report) -> bool:
    accepted = _receive(self, report)
    self._take_in()
    return accepted


def keeps_what_waited(self: CutProposer, _outcome: ViewChanged) -> None:
    self._proposed.clear()


def forgets_at_once(self: Retention) -> tuple[int, ...]:
    return tuple(self._waiting)


def every_learner(_self: Reports, _shard: int, _replica: int) -> bool:
    return True


Patch = tuple[object, str, object]
PLANTED: dict[str, tuple[str, *tuple[Patch, ...]]] = {
    "one copy is enough": ("4", (Shard, "copies", property(lambda _shard: 1))),
    "lengths may fall": ("2", (LaneTable, "_grown", any_length)),
    "short shards go on": ("4", (LaneTable, "gate", short_shards_too)),
    "cuts of an earlier configuration count": ("4", (LaneTable, "gate", any_configuration)),
    "what waited outlives its configuration": (
        "4",
        (CutProposer, "receive", works_out_at_once),
        (CutProposer, "_view_changed", keeps_what_waited),
    ),
    "cuts are forgotten at once": ("10", (Retention, "take", forgets_at_once)),
    "learners are added unseen": ("4", (Reports, "has_caught_up", every_learner)),
}


@pytest.mark.parametrize("bug", PLANTED)
@pytest.mark.campaign
def test_planted_bugs_are_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    number, *patches = PLANTED[bug]
    for owner, name, value in patches:
        monkeypatch.setattr(owner, name, value)
    assert first_violation().startswith(f"{number}: ")


def first_violation() -> str:
    for seed in range(PLANTED_SEEDS_MAX):
        try:
            World(seed).run()
        except Violation as violation:
            return str(violation)
    return f"{PLANTED_SEEDS_MAX} seeds found nothing"
