"""What all tests of the simulator share."""

import threading
from collections.abc import Iterator

import pytest

from ithaca.runtime import machine


@pytest.fixture(autouse=True)
def own_machine() -> Iterator[None]:
    """A simulated process that runs outside of a world leaves its machine behind: other tests need the real one.

    The other way round, real servers in this process would take simulated machines and limits for theirs, and the
    simulator's witnesses would take them for servers of the world.
    """
    assert "ithaca-testing" not in {thread.name for thread in threading.enumerate()}, "a cluster is left in the process"
    before = machine.current()
    yield
    machine.use(before)
