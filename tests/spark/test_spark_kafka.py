"""The comparison with Kafka: what its report says, what happens without the jars, and a run of the real thing."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession

from ithaca.bench.jars import resolve
from ithaca.bench.measure import Latency, Sample, summarize
from ithaca.bench.spark.kafka import BROKER_PACKAGE
from ithaca.bench.spark.scan import KAFKA, REMOTE, SCAN, compared_with_kafka
from ithaca.cli.bench.report import print_rates
from ithaca.model.errors import Unavailable
from tests.cli.command import COMMAND, environment
from tests.cli.processes import left_behind

RUN = ["bench", "spark", "--kafka", "--orderers", "1", "--replicas", "1", "--copy-bytes", "1M", "--rounds", "1"]
PATIENCE_S = 600
EMPTY_REPOSITORY = """
<ivysettings>
  <settings defaultResolver="empty"/>
  <resolvers><filesystem name="empty"><artifact pattern="{directory}/[artifact].jar"/></filesystem></resolvers>
</ivysettings>
"""


def sample(seconds: float) -> Sample:
    return Sample(records=100, bytes=409_600, seconds=seconds, latency=Latency.of([seconds]))


def test_the_ratio_is_formed_within_the_rounds_and_printed_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    samples = {SCAN: [sample(1.0), sample(1.0), sample(2.0)], KAFKA: [sample(2.0), sample(3.0), sample(1.0)]}
    samples[REMOTE] = [sample(4.0), sample(3.0), sample(1.0)]
    settings = {"file_system": "tmpfs", "cores": 2, "python": "3", "batch": 64, "record_bytes": 4096}
    figures = {name: summarize(of_one) for name, of_one in samples.items()}
    report = {"bench": "spark", "contenders": figures, "settings": settings} | compared_with_kafka(samples, 2)
    print_rates(report, as_json=False)
    assert f"{SCAN} / {KAFKA}: rate 2.00 (2.00 3.00 0.50)\n" in capsys.readouterr().out
    assert report["kafka"]["spark"] == pyspark.__version__


def test_packages_that_cannot_be_had_are_named_with_the_way_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings.xml"
    settings.write_text(EMPTY_REPOSITORY.format(directory=tmp_path))
    conf = SparkConf(loadDefaults=False).set("spark.jars.ivySettings", str(settings))
    monkeypatch.setattr(spark.sparkContext, "getConf", lambda: conf.set("spark.jars.ivy", str(tmp_path / "ivy")))
    with pytest.raises(Unavailable, match=r"^org.apache.kafka:kafka_2.13.* Maven Central .*leave it out"):
        resolve(spark, tmp_path, BROKER_PACKAGE, excluded=())


def report_of(directory: Path) -> dict[str, Any]:
    done = subprocess.run(
        [*COMMAND, *RUN, "--bytes", "8M", "--dir", str(directory), "--json"],
        capture_output=True,
        timeout=PATIENCE_S,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr.decode()
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.campaign
@pytest.mark.timeout(2 * PATIENCE_S)
def test_kafka_holds_the_same_records_and_leaves_nothing_behind(tmp_path: Path) -> None:
    report = report_of(tmp_path / "b")
    assert report["contenders"][KAFKA]["records_per_s"] > 0
    ratio = report["contenders"][SCAN]["bytes_per_s"] / report["contenders"][KAFKA]["bytes_per_s"]
    assert report["compared"][SCAN][KAFKA]["rate"] == pytest.approx(ratio, abs=1e-3)
    assert report["kafka"]["partitions"] == 2
    assert left_behind(tmp_path / "b") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.campaign
@pytest.mark.timeout(2 * PATIENCE_S)
def test_ctrl_c_takes_the_broker_down(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, *RUN, "--bytes", "8M", "--dir", str(tmp_path / "b")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(),
        start_new_session=True,
    ) as command:
        assert command.stdout is not None
        for line in command.stdout:
            if b"once, not counted: Spark's Kafka source" in line:
                break
        command.send_signal(signal.SIGINT)
        said = command.stdout.read()
        assert command.wait(PATIENCE_S) != 0, said
    assert left_behind(tmp_path / "b") == []
    assert list(tmp_path.iterdir()) == []
