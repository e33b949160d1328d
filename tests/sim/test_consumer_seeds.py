"""Two programs of one named consumer in simulated clusters of every engine: nothing is violated, and they commit.

Where the engine can, they write for what they take in one of the seeds, together with their commits.
"""

from collections import Counter
from dataclasses import replace

import pytest

from ithaca.model.engine import FEATURES, EngineName, Feature
from ithaca.sim.configuration import configuration_of
from ithaca.sim.run import run_configuration

SEEDS = (3, 7)
ENGINES = [name for name in FEATURES if not name.endswith("toy")]


@pytest.mark.parametrize("engine", ENGINES)
def test_consumers_of_one_name_fence_each_other_and_lose_nothing(engine: EngineName) -> None:
    counts: Counter[str] = Counter()
    can_write = Feature.PREPARED in FEATURES[engine]
    for seed in SEEDS:
        writes = can_write and seed == SEEDS[0]
        result = run_configuration(replace(configuration_of(seed, engine), consumers=2, takers_write=writes))
        assert result.violation is None, f"seed {seed} of {engine}: {result.violation}\n{result.report}"
        counts.update(result.counts)
    assert counts["consumer committed"] > 0
    assert counts["consumer fenced"] > 0
    assert not can_write or counts["consumer committed what it wrote"] > 0
