"""`ithaca bench spark` without Spark: which cluster is measured, and what its copy can promise."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ithaca.bench.cluster.target import Measured
from ithaca.bench.spark import scan
from ithaca.cli.app import app
from ithaca.cluster.temporary import Shape
from ithaca.testing import Cluster


@pytest.mark.parametrize("engine", ["scalog", "belfast", "corfu", "raft"])
def test_any_engine_is_measured(engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[scan.SparkSettings] = []

    def started(directory: Path, settings: scan.SparkSettings, progress: object) -> dict[str, Any]:
        asked.append(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(scan, "run_spark", started)
    CliRunner().invoke(app, ["bench", "spark", "--engine", engine, "--dir", str(tmp_path / "bench")])
    (settings,) = asked
    assert isinstance(settings.cluster, Shape)
    assert settings.cluster.engine == engine


@pytest.mark.parametrize(("engine", "delivery"), [("scalog", "exactlyOnce"), ("raft", "atLeastOnce")])
def test_the_copy_promises_what_the_engine_can(engine: str, delivery: str, tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", engine=engine) as cluster:
        assert scan.copy_delivery(Measured(cluster.bootstrap, (0,))) == delivery
