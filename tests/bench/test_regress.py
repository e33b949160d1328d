"""A tiny comparison of this tree with itself, and what the verdict says of rounds that are known."""

import os
from pathlib import Path

import pytest

from ithaca.bench.regress.comparing import RegressSettings, run_regress
from ithaca.bench.regress.trees import other_tree, this_tree
from ithaca.bench.regress.verdict import interval_of, judge
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import MIB


@pytest.mark.campaign
def test_both_trees_and_the_ceiling_take_turns_and_nothing_is_left(tmp_path: Path) -> None:
    this = this_tree()
    settings = RegressSettings(
        str(this.root), ("lone", "range", "point"), seconds=0.2, rounds=1, segment_bytes=MIB, orderers=1
    )
    report = run_regress(tmp_path / "bench", settings, lambda text: None)
    lone = report["workloads"]["lone"]
    assert set(lone["turns"]) == {"ceiling", "this", "other"}
    for reading in ("range", "point"):
        assert set(report["workloads"][reading]["turns"]) == {"this", "other"}
        assert report["workloads"][reading]["this"]["operations_per_s"] > 0
    for tree in ("this", "other"):
        figures = lone[tree]
        assert figures["operations_per_s"] > 0
        assert figures["p50_by_ceiling"] > 1
        assert {"client", "orderer-1", "shard-0-replica-0", "shard-0-replica-1"} <= set(figures["cpu_ms_of"])
    assert lone["cpu"]["verdict"] == "unclear"  # one round says nothing
    assert report["worse"] == []
    assert list(tmp_path.iterdir()) == []
    assert not [name for name in filter(str.isdigit, os.listdir("/proc")) if _works_in(name, tmp_path)]


def _works_in(pid: str, directory: Path) -> bool:
    try:
        return os.fsencode(directory) in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_is_no_commit_is_named(tmp_path: Path) -> None:
    nowhere = other_tree("no-such-commit", this_tree(), tmp_path / "tree")
    with pytest.raises(InvalidInput, match="'no-such-commit' is neither a commit of"), nowhere:
        pass


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([0.80, 0.82, 0.79, 0.81, 0.80], "better"),
        ([1.20, 1.22, 1.10, 1.31, 1.20], "worse"),
        ([0.99, 1.01, 1.00, 1.02, 0.98], "same"),
        ([0.80, 0.82, 1.40, 0.81, 0.80], "unclear"),
        ([0.50, 0.50, 0.50, 0.50], "unclear"),
        ([0.80, 0.82, 1.40, 0.81, 0.80, 0.79, 0.83, 0.80], "better"),
        ([0.980, 0.985, 0.990, 0.975, 0.960], "unclear"),
    ],
    ids=["less", "more", "equal", "one outlier of five", "too few", "one outlier of eight", "small"],
)
def test_the_verdict_knows_the_noise(ratios: list[float], verdict: str) -> None:
    assert judge(ratios, less_is_better=True)["verdict"] == verdict


def test_more_is_better_where_it_is() -> None:
    assert judge([1.2] * 5, less_is_better=False)["verdict"] == "better"
    assert judge([0.8] * 5, less_is_better=False)["verdict"] == "worse"


def test_more_rounds_leave_outliers_out() -> None:
    assert interval_of([float(each) for each in range(1, 10)]) == (2.0, 8.0)
