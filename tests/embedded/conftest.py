"""What tests of a directory have in common."""

from collections.abc import Iterator

import pytest
from tests.embedded.clock import Clock

from ithaca.runtime import machine


@pytest.fixture
def clock() -> Iterator[Clock]:
    made = Clock()
    before = machine.use(made)
    yield made
    machine.use(before)
