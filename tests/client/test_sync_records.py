"""What a synchronous iteration asks its twin for."""

from types import SimpleNamespace
from typing import Any

import pytest

from ithaca.client.sync.records import SyncRecords


@pytest.mark.parametrize(("forked", "ended", "asked"), [(False, False, 1), (True, False, 0), (False, True, 0)])
def test_the_twin_is_closed_only_where_its_loop_runs(forked: bool, ended: bool, asked: int) -> None:
    """In a forked child, and at the end of the process, nobody would answer."""
    closed: list[str] = []
    twin: Any = SimpleNamespace(close=lambda: closed.append("twin"))
    portal: Any = SimpleNamespace(forked=False, ended=False, run=lambda opening: twin)
    records = SyncRecords(portal, lambda: twin)
    portal.forked, portal.ended, portal.run = forked, ended, lambda work: work()
    records.close()
    assert closed == ["twin"] * asked
    assert list(records) == []
