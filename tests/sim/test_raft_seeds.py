"""Seeds of the engine raft that once failed."""

import pytest

from ithaca.sim.run import run_seed

FAILED_ONCE = (
    49,  # a filtered stream passed over what was trimmed where it was copied from, instead of saying so
    59,
    274,  # a server that was back served what it did not know to be trimmed yet
    150,  # a server that was started again was told to drop ranges of which it had trimmed the bytes
)


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_a_seed_that_failed_once_holds(seed: int) -> None:
    assert run_seed(seed, "raft").violation is None
