"""Speculation: two attempts of one task prepare their rows, and one of them is published.

Spark runs no second attempt on a host that has had the first (`TaskSetManager.dequeueTaskFromList`), and all workers of
`local-cluster` have one host: there a slow task is never run twice. So the workers here have two addresses of the
loopback interface, which are two hosts to Spark.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ithaca
from ithaca.testing import Cluster
from tests.spark.speculating import QUICK_JVM, ROWS

HERE = Path(__file__).parents[2]
JOB_S = 240.0


@pytest.mark.timeout(300)
@pytest.mark.campaign
def test_two_attempts_prepare_and_one_is_published(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with Cluster(shards=2, replicas=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        environment = os.environ | {
            "PYTHONPATH": f"{HERE}:{HERE / 'src'}",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"--driver-memory 512m --driver-java-options '{QUICK_JVM}' pyspark-shell",
        }
        job = [sys.executable, "-m", "tests.spark.speculating", cluster.bootstrap, str(tmp_path)]
        done = subprocess.run(job, env=environment, cwd=HERE, capture_output=True, timeout=JOB_S)
        assert done.returncode == 0, done.stderr.decode()[-4000:]
        assert {each.name for each in marks.iterdir()} == {"0-0", "0-1", "1-0"}, "the slow task was run twice"
        values = [int(record.value) for record in log.read_range(1)]
        assert values == list(range(ROWS)), "each row once, in the order of the partitions"
        assert log.admin.writers() == ()
