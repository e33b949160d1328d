"""A user of Spark: the first query, and a job that ships Ithaca to executors, from the docs alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.free_base import free_base
from tests.deploy.wheels import built
from tests.roles.pages import environment, replay
from tools.examples import blocks

import ithaca
from ithaca.testing import Cluster

PAGE = "docs/guides/spark.md"


@pytest.mark.campaign
@pytest.mark.timeout(1200)
def test_the_guide_runs_as_it_is_printed(tmp_path: Path) -> None:
    replay(PAGE, free_base(7), tmp_path, timeout_s=800)


@pytest.mark.campaign
@pytest.mark.timeout(1200)
def test_a_job_ships_ithaca_to_executors(tmp_path: Path) -> None:
    """The recipe with an archive, on two executors that have nothing but a bare Python and Spark."""
    titled = {block.title: block.code for block in blocks(PAGE) if block.title}
    (tmp_path / "job.py").write_text(titled["job.py"], encoding="utf-8")
    built(tmp_path / "dist")
    bare = os.path.realpath(sys.executable)
    # The driver's interpreter has PySpark, and spark-submit stands beside it; that of the executors has nothing.
    settings = {name: value for name, value in environment().items() if name != "PYTHONPATH"} | {
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": bare,
        "MASTER": "local-cluster[2,1,1024]",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{Path(bare).parent}{os.pathsep}{os.environ['PATH']}",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
    }
    with Cluster(shards=2) as cluster:
        with ithaca.connect(cluster.bootstrap, shard_policy="round_robin") as log:
            for number in range(100):
                log.append(b"%d" % number)
        ran = subprocess.run(
            ["bash", "-euc", titled["shipping"]],
            cwd=tmp_path,
            env=settings | {"BOOTSTRAP": cluster.bootstrap},
            capture_output=True,
            text=True,
            timeout=800,
        )
    if "Could not find a version" in ran.stderr or "Temporary failure in name resolution" in ran.stderr:
        pytest.skip("no package index can be reached")
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "records: 100" in ran.stdout
