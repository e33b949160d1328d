"""Where a pipeline runs: a cluster, Spark, a directory, and somebody who is told how it goes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import ithaca
from ithaca.apps.pipelines.claims import Claims
from ithaca.apps.pipelines.store import ResultStore

Figures = list[tuple[str, str]]


@dataclass
class Stage:
    """What a pipeline is given."""

    spark: SparkSession
    bootstrap: str
    home: Path
    add_shard: Callable[[], int]
    """Adds a shard to the cluster while it runs; returns its number once it takes appends."""
    say: Callable[[str], None]
    claims: Claims = field(init=False)

    def __post_init__(self) -> None:
        self.claims = Claims(self.say)

    @property
    def results(self) -> ResultStore:
        """The database of this pipeline's results."""
        return ResultStore(self.home / "results.sqlite")

    def table(self, **options: object) -> DataFrame:
        """The log as a table, with options of the data source."""
        given = {name: str(option) for name, option in options.items()}
        return self.spark.read.format("ithaca").option("bootstrap", self.bootstrap).options(**given).load()

    def shards(self, shards: Iterable[int]) -> DataFrame:
        """The records of some shards; their replicas alone are asked, each shard by tasks of its own."""
        return self.table(split="shard", pushFilters="true").where(f"shard IN ({', '.join(map(str, shards))})")

    def replace_shards(self) -> tuple[int, ...]:
        """Add a shard, then finalize those that were there, while appends go on; returns the finalized ones."""
        with ithaca.connect(self.bootstrap) as log:
            old = tuple(each.shard for each in log.admin.shards() if each.phase != "finalized")
            self.add_shard()
            for shard in old:
                log.admin.finalize_shard(shard)
        return old
