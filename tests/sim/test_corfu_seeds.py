"""Seeds of the engine corfu that once failed."""

import pytest

from ithaca.sim.run import run_seed

FAILED_ONCE = (
    5,  # those who waited for a unit that had lost its disk asked Raft so often that nobody got on
    56,  # a block of the row index was written over the one before it
    147,  # a disk failed that was one of three when that was drawn, and the only one of its chain by then
    613,  # a unit was told of a batch that the head of a chain alone had, and said that it was there when it was junk
    245,  # a row was trimmed while it was settled, and one unit had the batch when the next one had junk already
    226,  # without a sequencer, a unit died before it could tell of a row, which the judge took for one of nobody
)


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_a_seed_that_failed_once_holds(seed: int) -> None:
    assert run_seed(seed, "corfu").violation is None
