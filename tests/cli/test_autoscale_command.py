"""`ithaca autoscale`: its lines, its file and its refusals."""

from pathlib import Path

import pytest
from tests.cli.command import ithaca, json_lines

from ithaca.cluster.temporary import Shape, temporary_cluster


def test_decisions_are_lines_on_standard_output_or_in_a_file(tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    with temporary_cluster(tmp_path / "cluster", Shape(1, 1, 1), lambda text: None) as cluster:
        common = ["--dir", str(cluster.directory), "--min", "2", "--interval", "0.05", "--dry-run", "--samples", "2"]
        printed = json_lines(ithaca("autoscale", *common).stdout)
        for _ in range(2):
            assert ithaca("autoscale", *common, "--audit", audit).stdout == b""
    assert [entry["decision"] for entry in printed] == ["nothing", "add"]
    written = json_lines(audit.read_bytes())
    assert [entry["decision"] for entry in written] == ["nothing", "add"] * 2
    assert set(written[0]) == {"time", "decision", "shard", "reason", "dry_run", "outcome", "loads"}


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["--min", "3", "--max", "2"], 1, "use 1 <= min <= max"),
        (["--finalize-below", "1.5"], 1, "use a share between 0 and 1"),
        (["--min", "0"], 2, "--min"),
        (["--bytes-per-s", "many"], 2, "is not a size"),
        ([], 1, "there is no cluster in"),
    ],
    ids=str,
)
def test_wrong_usage_is_named(tmp_path: Path, arguments: list[str], status: int, complaint: str) -> None:
    done = ithaca("autoscale", "--dir", tmp_path / "none", *arguments, status=status)
    assert complaint in done.stderr.decode()
