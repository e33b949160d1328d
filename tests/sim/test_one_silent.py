"""The rule `availability`: how long an append may take where one replica of two stands still."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ithaca.proof.history import Append, Outcome
from ithaca.sim.scalog.one_silent import APPEND_S_MAX, SILENT_FAULTS, OneSilent
from ithaca.sim.violation import Violation

S = 1_000_000_000
SILENCES_S = (10, 20)
LONG_S = int(APPEND_S_MAX)


def judge(begun_s: float, returned_s: float, outcome: Outcome = "ok") -> None:
    """The verdict on one append, where a replica was silent from these moments on."""
    append = Append((1, 1), 1, int(begun_s * S), int(returned_s * S), outcome, 1)
    recorder = SimpleNamespace(events=[append], out_sessions=set())
    world = SimpleNamespace(configuration=SimpleNamespace(seed=1, faults=SILENT_FAULTS), recorder=recorder)
    silent = OneSilent(cast("Any", world))
    silent._silences_ns = [second * S for second in SILENCES_S]
    silent.check_end()


@pytest.mark.parametrize(
    ("begun_s", "returned_s"),
    [
        pytest.param(11, 11 + LONG_S + 0.1, id="behind a silence"),
        pytest.param(18, 20 + LONG_S + 0.1, id="a silence meanwhile"),
        pytest.param(13, 20, id="none but the first meanwhile"),
    ],
)
def test_an_append_that_takes_long_is_accused(begun_s: float, returned_s: float) -> None:
    with pytest.raises(Violation, match=r"availability: append \(1, 1\) took"):
        judge(begun_s, returned_s)


def test_one_that_fails_is_accused() -> None:
    with pytest.raises(Violation, match="and was fail"):
        judge(11, 12, "fail")


@pytest.mark.parametrize(
    ("begun_s", "returned_s"),
    [
        pytest.param(11, 11 + LONG_S, id="behind a silence"),
        pytest.param(18, 20 + LONG_S, id="its time counts from the silence that began meanwhile"),
        pytest.param(2, 19, id="it began before any silence"),
    ],
)
def test_an_append_in_time_is_not(begun_s: float, returned_s: float) -> None:
    judge(begun_s, returned_s)
