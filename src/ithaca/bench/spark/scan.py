"""`ithaca bench spark`: a scan of the log against Spark reading the same bytes from memory, interleaved; and a copy.

All queries count the records, add up the lengths of their values and look at every position, so nothing is left
out. The log is scanned as it is by default, which on one machine means from the files of its replicas, and once more
as from another machine. The copy is a streaming query from the log into the same log, in bounded micro-batches:
exactly once, or at least once where the engine has no prepared appends, as the report's settings say. The first one is
reported apart, since it starts workers that stay. Where it is asked for, Spark's own Kafka source takes part in the
turns: the same query over the same records in a topic.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

import ithaca
from ithaca.bench.cluster.append import spread
from ithaca.bench.cluster.producers import Plan, producers
from ithaca.bench.cluster.target import Measured, measured_cluster
from ithaca.bench.measure import Latency, Progress, Sample, interleave, ratios, summarize
from ithaca.bench.place import surroundings, workspace
from ithaca.bench.spark.baseline import NAME, MemorySource
from ithaca.bench.spark.copying import LogCopies
from ithaca.bench.spark.kafka import WARM_UPS, KafkaTopic, batch_bytes_of, kafka_topic, versions
from ithaca.client.bootstrap import parse_bootstrap
from ithaca.cluster.temporary import Shape
from ithaca.engines.connecting import engine_at
from ithaca.engines.tasks import count_records, position_behind
from ithaca.model.engine import Feature
from ithaca.model.errors import ProtocolError
from ithaca.model.limits import MIB
from ithaca.spark.limits import SPARK_PARTITION_BYTES
from ithaca.spark.options import Delivery
from ithaca.spark.session import LOCAL_CHECKPOINTS, SESSION_SETTINGS

SCAN: Final = "scan of the log"
REMOTE: Final = "scan through sockets"
MEMORY: Final = "Spark, from memory"
KAFKA: Final = "Spark's Kafka source"
FIRST_COPY: Final = "streaming copy, the first of a session"
COPY: Final = "streaming copy"
FILL_WINDOW: Final = 8
_TIMEOUT_S: Final = 30.0
_SUMS: Final = ("count(*)", "sum(length(value))")


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """`bytes` is what the log is filled with; `copy_bytes` of it are copied. `kafka` has Kafka compared, too."""

    cluster: str | Shape
    bytes: int = 2048 * MIB
    copy_bytes: int = 512 * MIB
    record_bytes: int = 4096
    batch: int = 64
    rounds: int = 3
    cores: int = 2
    kafka: bool = False


def run_spark(parent: Path, settings: SparkSettings, progress: Progress) -> dict[str, Any]:
    """Rates of the scan, of its ceiling, and of the copy."""
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        cluster = stack.enter_context(measured_cluster(directory / "cluster", settings.cluster, progress))
        setting["copy_delivery"] = delivery = copy_delivery(cluster)
        filled = _fill(cluster, settings, progress)
        start, stop = filled.start, filled.stop
        progress("starting Spark")
        spark = stack.enter_context(_session(settings.cores, directory))
        contenders = {
            MEMORY: _memory(spark, settings, filled.records),
            SCAN: _scan(spark, cluster, settings, filled),
            REMOTE: _scan(spark, cluster, settings, filled, localReads="false"),
        }
        if settings.kafka:
            topic = stack.enter_context(_topic(spark, cluster, settings, directory, start, stop, progress))
            contenders[KAFKA] = _kafka(spark, topic, settings, filled.records)
        for name, contender in contenders.items():
            for _ in range(WARM_UPS if name == KAFKA else 1):
                progress(f"once, not counted: {name}")
                contender()
        samples = interleave(contenders, settings.rounds, progress)
        progress(FIRST_COPY)
        copies = LogCopies(spark, cluster, directory, filled.copied_from, settings.record_bytes, delivery)
        first = copies()
        samples |= interleave({COPY: copies}, settings.rounds, progress)
        figures = {name: summarize(of_one) for name, of_one in samples.items()}
        for name in (SCAN, REMOTE):
            figures[name]["ratios"] = {"to": MEMORY, **ratios(samples[name], samples[MEMORY], with_latency=False)}
        figures[FIRST_COPY] = summarize([first])
    main = {key: value for key, value in figures[SCAN].items() if key not in ("rounds", "ratios")}
    report = {"bench": "spark", **main, "contenders": figures, "settings": setting}
    return report | (compared_with_kafka(samples, settings.cores) if settings.kafka else {})


def compared_with_kafka(samples: Mapping[str, Sequence[Sample]], partitions: int) -> dict[str, Any]:
    """What the report says besides: the ratio within the rounds, and of which versions."""
    shares = {name: {KAFKA: ratios(samples[name], samples[KAFKA], with_latency=False)} for name in (SCAN, REMOTE)}
    return {"compared": shares, "kafka": versions(partitions)}


class _Filled(NamedTuple):
    """What is read: so many records in `[start, stop)`; those from `copied_from` on are copied."""

    start: int
    stop: int
    records: int
    copied_from: int


def _fill(cluster: Measured, settings: SparkSettings, progress: Progress) -> _Filled:
    progress(f"appending {settings.bytes / 1e6:.0f} MB to read")
    with ithaca.connect(cluster.bootstrap) as log:
        plan = Plan(settings.record_bytes, settings.batch, FILL_WINDOW)
        start = log.tail()
        with producers(cluster.bootstrap, spread(cluster, len(cluster.shards)), plan) as team:
            team.fill(settings.bytes)
        stop = log.tail()
        records = count_records(log, start, stop)
        copied = min(records, max(1, settings.copy_bytes // settings.record_bytes))
        return _Filled(start, stop, records, position_behind(log, start, stop, records - copied))


@contextmanager
def _session(cores: int, directory: Path) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").appName("ithaca bench spark")
    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        **SESSION_SETTINGS,
        **LOCAL_CHECKPOINTS,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(MemorySource)
    try:
        yield session
    finally:
        session.stop()


def _summed(frame: Callable[[], DataFrame], records: int, settings: SparkSettings, place: str = "position") -> Sample:
    began = time.perf_counter()
    row = frame().selectExpr(*_SUMS, f"sum({place})").head()
    seconds = time.perf_counter() - began
    size = records * settings.record_bytes
    if row is None or (row[0], row[1]) != (records, size):
        raise ProtocolError(f"Spark counted {row}, and {records} records of {size} bytes were to be read")
    return Sample(records, size, seconds, Latency.of([seconds]))


def _rows(spark: SparkSession, cluster: Measured, start: int, stop: int, **options: str | int) -> DataFrame:
    options |= {"bootstrap": cluster.bootstrap, "startingOffsets": start, "endingOffsets": stop}
    return spark.read.format("ithaca").options(**options).load()


def _scan(
    spark: SparkSession, cluster: Measured, settings: SparkSettings, filled: _Filled, **options: str
) -> Callable[[], Sample]:
    start, stop, records = filled[:3]
    return lambda: _summed(lambda: _rows(spark, cluster, start, stop, **options), records, settings)


def _memory(spark: SparkSession, settings: SparkSettings, records: int) -> Callable[[], Sample]:
    max_records = max(1, SPARK_PARTITION_BYTES // settings.record_bytes)
    options = {"records": records, "record_bytes": settings.record_bytes, "max_records": max_records}
    return lambda: _summed(lambda: spark.read.format(NAME).options(**options).load(), records, settings)


def _topic(
    spark: SparkSession,
    cluster: Measured,
    settings: SparkSettings,
    directory: Path,
    start: int,
    stop: int,
    progress: Progress,
) -> AbstractContextManager[KafkaTopic]:
    rows = _rows(spark, cluster, start, stop)
    batch_bytes = batch_bytes_of(settings.batch, settings.record_bytes)
    return kafka_topic(spark, directory / "kafka", rows, settings.cores, batch_bytes, progress)


def _kafka(spark: SparkSession, topic: KafkaTopic, settings: SparkSettings, records: int) -> Callable[[], Sample]:
    return lambda: _summed(lambda: topic.read(spark), records, settings, place="offset")


def copy_delivery(cluster: Measured) -> Delivery:
    """What the copy can promise on this cluster, by its engine."""
    engine = asyncio.run(engine_at(parse_bootstrap(cluster.bootstrap), _TIMEOUT_S, cluster.tls))
    return "exactlyOnce" if Feature.PREPARED in engine.features else "atLeastOnce"
