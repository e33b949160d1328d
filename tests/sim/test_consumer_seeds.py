"""Two programs of one named consumer in simulated clusters of every engine: nothing is violated, and they commit."""

from collections import Counter
from dataclasses import replace

import pytest

from ithaca.model.engine import FEATURES, EngineName
from ithaca.sim.configuration import configuration_of
from ithaca.sim.run import run_configuration

SEEDS = (3, 7)
ENGINES = [name for name in FEATURES if not name.endswith("toy")]


@pytest.mark.parametrize("engine", ENGINES)
def test_consumers_of_one_name_fence_each_other_and_lose_nothing(engine: EngineName) -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        result = run_configuration(replace(configuration_of(seed, engine), consumers=2))
        assert result.violation is None, f"seed {seed} of {engine}: {result.violation}\n{result.report}"
        counts.update(result.counts)
    assert counts["consumer committed"] > 0
    assert counts["consumer fenced"] > 0
