"""What all tests of the simulator share."""

from collections.abc import Iterator

import pytest

from ithaca.runtime import machine


@pytest.fixture(autouse=True)
def own_machine() -> Iterator[None]:
    """A simulated process that runs outside of a world leaves its machine behind: other tests need the real one."""
    before = machine.current()
    yield
    machine.use(before)
