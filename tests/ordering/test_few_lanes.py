"""A loop over few lanes and vectors over many order the same (`ithaca.engines.scalog.ordering.lanes`)."""

from random import Random

import pytest

from ithaca.engines.scalog.ordering import lanes
from ithaca.engines.scalog.ordering.lanes import LaneTable, Runs
from ithaca.model.cut import FEW, LaneLengths
from ithaca.model.positions import LaneId

LANES = [LaneId(shard, replica, 1) for shard in range(3) for replica in range(2)]


def ordered(seed: int) -> list[tuple[list[int], ...]]:
    """What random cuts order, some of them over lanes that are closed, gated, unknown or not ahead."""
    random = Random(seed)
    table = LaneTable()
    for lane in LANES:
        table.open(lane, since=random.randint(0, 2))
    table.close(LANES[random.randrange(len(LANES))])
    tail = 1
    found: list[tuple[list[int], ...]] = []
    for step in range(40):
        chosen = random.sample([*LANES, LaneId(9, 9, 9)], random.randint(0, FEW - 1))
        moved = LaneLengths.of({lane: random.randint(0, 10 + 10 * step) for lane in chosen})
        view = random.randint(0, 3)
        growing = table.growing(moved, view)
        runs: Runs = table.order(moved, view, tail)
        assert growing.keys.tolist() == runs.keys.tolist()
        assert growing.lengths.tolist() == (runs.lsns + runs.counts).tolist()
        tail += int(runs.counts.sum())
        found.append(tuple(column.tolist() for column in runs))
    return [*found, (table.lengths.tolist(),)]


@pytest.mark.parametrize("seed", range(30))
def test_loops_and_vectors_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    by_loop = ordered(seed)
    assert sum(len(keys) for keys, *_ in by_loop[:-1]) > 10, "something is ordered"
    monkeypatch.setattr(lanes, "FEW", -1)
    assert ordered(seed) == by_loop
