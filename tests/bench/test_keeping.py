"""Tiny runs of the bench of backups: appends with one and without, in turns."""

from pathlib import Path

import pytest

from ithaca.bench.keeping import ALONE, BESIDE, BackupSettings, run_backup
from ithaca.bench.restoring import compared
from ithaca.cluster.temporary import Shape
from ithaca.model.errors import Corrupt
from ithaca.model.limits import KIB, MIB
from ithaca.model.records import Record


def quiet(text: str) -> None:
    """Progress that nobody looks at."""


@pytest.mark.parametrize("cluster", [None, Shape(shards=2, replicas=1, orderers=1, segment_bytes=256 * KIB)])
def test_appends_are_measured_alone_and_beside_a_backup(tmp_path: Path, cluster: Shape | None) -> None:
    # At this pace the backup lasts as long as the rounds, whatever the machine.
    settings = BackupSettings(cluster, MIB, 100, 10, seconds=0.1, rounds=2, pace=600 * KIB, restore=True)
    report = run_backup(tmp_path / "bench", settings, quiet)
    contenders = report["contenders"]
    assert contenders[BESIDE]["ratios"]["to"] == ALONE
    assert all(len(each["rounds"]) == 2 for each in contenders.values())
    assert report["backup"]["bytes"] > MIB
    assert report["restore"]["records"] * 100 > MIB
    assert report["restore"]["same_positions"]
    assert list(tmp_path.iterdir()) == []


def test_records_that_came_back_otherwise_are_told() -> None:
    def record(position: int, value: bytes) -> Record:
        return Record(position, value, None, 0, 0)

    here = [record(1, b"a"), record(2, b"b")]
    assert compared(iter(here), iter(here), "backup", same_positions=True) == 2
    moved = [record(1, b"a"), record(3, b"b")]
    assert compared(iter(here), iter(moved), "backup", same_positions=False) == 2
    for other in (moved, [record(1, b"a"), record(2, b"x")], here[:1], [*here, record(3, b"c")]):
        with pytest.raises(Corrupt, match="position"):
            compared(iter(here), iter(other), "backup", same_positions=True)
