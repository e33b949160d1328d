"""Seeds of the engine raft that once failed."""

import pytest

from ithaca.sim.clients import outsiders
from ithaca.sim.run import run_seed

FAILED_ONCE = (
    49,  # a filtered stream passed over what was trimmed where it was copied from, instead of saying so
    59,
    274,  # a server that was back served what it did not know to be trimmed yet
    401,  # one task of a client gave up the leader that another had just been told of
    539,  # a record was acknowledged by two of three, while the fourth voter was being removed: that is enough
    1121,  # a server that was removed told where its files lie, in which nothing is trimmed any more
    910,  # a reader waited at a server that waits to be added
    1450,  # a commit under a name that was given up counted for the next one
    150,  # a server that was started again was told to drop ranges of which it had trimmed the bytes
)


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_a_seed_that_failed_once_holds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was then, when this engine's seeds had no users."""
    monkeypatch.setattr(outsiders, "ENGINES", ("scalog",))
    assert run_seed(seed, "raft").violation is None
