"""The one rule by which both verdicts on a cluster warn of limits."""

from pathlib import Path

import pytest

from ithaca.cluster.status import ClusterStatus
from ithaca.engines.scalog.client.admin.status import judged
from ithaca.model.health import ServerStatus
from ithaca.model.limit_use import LIMITS, limit_warnings
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address

_DOCS = Path(__file__).parents[2] / "docs" / "operations.md"


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_warned_of_from_four_fifths_on(name: str) -> None:
    limit = LIMITS[name]
    assert limit_warnings([("orderer-1", {"limits": {name: [7999, 10_000]}})]) == []
    (said,) = limit_warnings([("orderer-1", {"limits": {name: [8000, 10_000]}})])
    who = "the ordering layer" if limit.of_cluster else "orderer-1"
    assert said == f"{who} has used 8000 of 10000 {limit.what} ({name}): {limit.way_out}"


@pytest.mark.parametrize("name", LIMITS)
def test_both_verdicts_warn_and_neither_calls_it_a_problem(name: str) -> None:
    said = {
        "address": "a:1",
        "role": "orderer",
        "server": 1,
        "state": "leader",
        "term": 1,
        "configured": True,
        "shards": [],
        "log": "L",
        "limits": {name: [5, 5]},
    }
    place = ServerPlace("orderer", 1, Address("a", 1))
    status = judged([ServerStatus(place, said)])
    assert status.healthy
    assert len(status.warnings) == 1
    assert f"5 of 5 {LIMITS[name].what}" in status.warnings[0]
    assert LIMITS[name].way_out in status.warnings[0]
    assert tuple(ClusterStatus([ServerStatus(place, said)]).health.warnings) == status.warnings


def test_what_all_orderers_have_alike_is_told_once_and_what_each_has_for_itself_of_each() -> None:
    servers = [
        ("orderer-1", {"limits": {"named_sessions": [90, 100], "descriptors": [9, 10]}}),
        ("orderer-2", {"limits": {"named_sessions": [91, 100], "descriptors": [9, 10]}}),
        ("orderer-3", {"limits": {"named_sessions": [12, 100], "descriptors": [1, 10]}}),
        ("an older one", {}),
    ]
    found = limit_warnings(servers)
    assert [text.partition(":")[0] for text in found] == [
        "orderer-1 has used 9 of 10 files and connections that the process may open (descriptors)",
        "orderer-2 has used 9 of 10 files and connections that the process may open (descriptors)",
        "the ordering layer has used 91 of 100 sessions with a name (named_sessions)",
    ]


def test_limits_that_are_not_known_here_and_unused_ones_are_passed_over() -> None:
    assert limit_warnings([("newer", {"limits": {"of another version": [9, 9], "disk_bytes": [0, 0]}})]) == []


@pytest.mark.parametrize("name", LIMITS)
def test_the_handbook_says_what_happens_at_each_limit(name: str) -> None:
    section = _DOCS.read_text().partition("### Limits\n")[2].partition("\n### ")[0]
    assert f"| `{name}` |" in section
