"""Every pipeline with few records: what Spark computes is what plain Python computes, and a difference is found."""

from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ithaca
from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.fraud.payments import SOURCES, decode, events
from ithaca.apps.fraud.plain import UserState, judge
from ithaca.apps.fraud.store import FraudStore
from ithaca.apps.fraud.stream import FraudStream, Judged
from ithaca.apps.pipelines.events import read_all
from ithaca.apps.pipelines.feed import Feed
from ithaca.apps.pipelines.run import RECORDS
from ithaca.apps.pipelines.stage import Stage
from ithaca.spark import register
from ithaca.testing import Cluster

FEW = 2400
SEED = 5


def stage(spark: SparkSession, cluster: Cluster, home: Path, said: list[str]) -> Stage:
    register(spark)
    return Stage(spark, cluster.bootstrap, home, cluster.add_shard, said.append)


@pytest.mark.parametrize("name", RECORDS)
def test_spark_and_plain_python_agree(spark: SparkSession, tmp_path: Path, name: str) -> None:
    said: list[str] = []
    with Cluster(shards=2, engine="belfast" if name == "alerts" else "scalog") as cluster:
        place = stage(spark, cluster, tmp_path, said)
        figures = import_module(f"ithaca.apps.{name}.pipeline").run(place, SEED, FEW)
    claims = [line for line in said if line.startswith("   checked: ")]
    assert len(claims) == len(place.claims.held) >= 2
    assert f"all {FEW:,} records" in claims[0]
    assert figures
    assert list(tmp_path.glob("*.sqlite"))


def test_a_batch_that_is_empty_or_repeated_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    told: list[Judged] = []
    store = FraudStore(tmp_path / "fraud.sqlite")
    with Cluster(shards=2) as cluster, ithaca.connect(cluster.bootstrap) as log:
        place = stage(spark, cluster, tmp_path, [])
        with Feed(cluster.bootstrap, {source: events(SEED, source, 600) for source in range(SOURCES)}) as feed:
            feed.finish()
        stream = FraudStream(store, told.append)
        for batch, start, stop in [(0, 1, 1), (1, 1, 301), (2, 301, 601), (2, 301, 601)]:
            stream.take(place.table(startingOffsets=start, endingOffsets=stop), batch)
        states = {state.user: state for state in store.states()}
        known: dict[str, UserState] = {}
        expected = judge(((record.position, decode(record.value)) for record in read_all(log)), known)
    assert [(each.batch, each.records, each.last_position) for each in told] == [(1, 300, 300), (2, 300, 600)]
    assert store.alerts() == expected
    assert states == known


def test_a_result_that_differs_fails_the_pipeline(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ithaca.apps.trading.job.DEVIATIONS", 3)  # Spark's rule alone; the plain one stays
    with Cluster(shards=2) as cluster, pytest.raises(DemoFailed, match=r"signals, with their slopes, .* row "):
        import_module("ithaca.apps.trading.pipeline").run(stage(spark, cluster, tmp_path, []), SEED, FEW)
