"""Tiny runs of the bench of backups: appends with one and without, in turns."""

from pathlib import Path

import pytest

from ithaca.bench.keeping import ALONE, BESIDE, BackupSettings, run_backup
from ithaca.cluster.temporary import Shape
from ithaca.model.limits import KIB, MIB


def quiet(text: str) -> None:
    """Progress that nobody looks at."""


@pytest.mark.parametrize("cluster", [None, Shape(replicas=1, orderers=1, segment_bytes=256 * KIB)])
def test_appends_are_measured_alone_and_beside_a_backup(tmp_path: Path, cluster: Shape | None) -> None:
    # At this pace the backup lasts as long as the rounds, whatever the machine.
    settings = BackupSettings(cluster, MIB, 100, 10, seconds=0.1, rounds=2, pace=600 * KIB)
    report = run_backup(tmp_path / "bench", settings, quiet)
    contenders = report["contenders"]
    assert contenders[BESIDE]["ratios"]["to"] == ALONE
    assert all(len(each["rounds"]) == 2 for each in contenders.values())
    assert report["backup"]["bytes"] > MIB
    assert list(tmp_path.iterdir()) == []
