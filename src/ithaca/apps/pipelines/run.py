"""`ithaca demo marketplace` and its like: a cluster and Spark for a while, one pipeline, and its figures."""

import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.demo_display import Display
from ithaca.apps.demo_home import demo_home
from ithaca.apps.pipelines.spark import check_can_run_spark, local_spark
from ithaca.cluster.shards import add_local_shard
from ithaca.cluster.temporary import Shape, TemporaryCluster, temporary_cluster
from ithaca.model.engine import EngineName

if TYPE_CHECKING:
    from ithaca.apps.pipelines.stage import Figures, Stage

RECORDS: Final = {"marketplace": 20_000, "intrusion": 20_000, "fraud": 20_000, "trading": 10_000, "alerts": 6_000}
"""The pipelines, and how many records each has unless told otherwise."""
SHAPE: Final = Shape(shards=2, replicas=2, orderers=1)


def run_pipeline(name: str, records: int, seed: int, directory: Path | None, keep: bool, engine: EngineName) -> bool:
    """Run one pipeline; True when every claim held."""
    check_can_run_spark()
    display = Display({})
    run: Callable[[Stage, int, int], Figures] = import_module(f"ithaca.apps.{name}.pipeline").run
    with demo_home(directory, keep) as home:
        started = time.perf_counter()
        try:
            with temporary_cluster(home / "cluster", replace(SHAPE, engine=engine), lambda text: None) as cluster:
                figures = _run(run, cluster, home, display, seed, records)
        except DemoFailed as failure:
            display.say(f"FAILED: {failure}")
            return False
        display.table("every claim held", [*figures, ("all of it took", f"{time.perf_counter() - started:.1f} s")])
        if keep:
            display.say(f"the results are kept; look at them with: sqlite3 {home}/results/*.sqlite")
    return True


def _run(
    run: "Callable[[Stage, int, int], Figures]",
    cluster: TemporaryCluster,
    home: Path,
    display: Display,
    seed: int,
    records: int,
) -> "Figures":
    from ithaca.apps.pipelines.stage import Stage

    display.say(f"a cluster is up: {SHAPE.shards} shards of {SHAPE.replicas} replicas; Spark is being started")
    with local_spark(home / "spark") as spark:

        def add_shard() -> int:
            return add_local_shard(cluster.directory, None, masking=False, progress=lambda text: None)

        results = home / "results"
        results.mkdir()
        return run(Stage(spark, cluster.bootstrap, results, add_shard, display.say), seed, records)
