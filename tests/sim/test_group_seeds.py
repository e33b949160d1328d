"""Members of a group in simulated clusters of every engine: nothing is violated, and parts change hands.

Where the engine can, they write for what they take, together with their commits.
"""

from collections import Counter
from dataclasses import replace

import pytest

from ithaca.model.engine import FEATURES, EngineName, Feature
from ithaca.sim.configuration import configuration_of
from ithaca.sim.run import run_configuration

SEEDS = {"scalog": (2, 4), "belfast": (2,), "raft": (3, 5), "corfu": (1, 2)}
ENGINES = [name for name in FEATURES if not name.endswith("toy")]


@pytest.mark.parametrize("engine", ENGINES)
def test_members_share_the_work_and_hand_it_over(engine: EngineName) -> None:
    counts: Counter[str] = Counter()
    writes = Feature.PREPARED in FEATURES[engine]
    for seed in SEEDS[engine]:
        drawn = replace(configuration_of(seed, engine), group_members=3, consumers=0, takers_write=writes)
        result = run_configuration(drawn)
        assert result.violation is None, f"seed {seed} of {engine}: {result.violation}\n{result.report}"
        counts.update(result.counts)
    assert counts["group committed"] > 0
    assert counts["group part handed over"] > 0
    assert not writes or counts["group committed what it wrote"] > 0
