"""When a server of a Raft group has applied what was agreed on before the leader that it hears began."""

from types import SimpleNamespace
from typing import Any

import pytest

from ithaca.runtime.raft.driver import RaftDriver


@pytest.mark.parametrize(
    ("leader", "term", "commit_index", "is_current"),
    [
        (2, 5, 9, True),
        (None, 5, 9, False),  # nobody has said for a while what is agreed on
        (2, 6, 9, False),  # the leader's first entry, which is behind all that was agreed on before, is not applied
        (2, 5, 12, False),  # it is known to be agreed on, and not applied yet
    ],
)
def test_what_is_applied_is_current_once_nothing_of_before_can_be_missing(
    leader: int | None, term: int, commit_index: int, is_current: bool
) -> None:
    node = SimpleNamespace(leader=leader, term=term, commit_index=commit_index)
    driver: Any = SimpleNamespace(_core=SimpleNamespace(node=node), applied_index=9, _applied_term=5)
    found: Any = RaftDriver.is_current
    assert found.fget(driver) is is_current
