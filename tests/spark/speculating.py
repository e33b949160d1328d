"""A job whose first task is slow, so that Spark runs it a second time: `python -m tests.spark.speculating`.

Both attempts prepare their part; the slow one says so only when the other one is done.
"""

import sys
import time
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ithaca.spark import IthacaDataSource

ROWS = 40
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Three short-lived JVMs: for them it is not worth while to compile well."""


class SlowAtFirst(IthacaDataSource):
    """The sink, with marks in a directory, and with a first attempt that waits for the second one's mark."""

    @classmethod
    def name(cls) -> str:
        return "slow-ithaca"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        plain = dict(options)
        self._marks = Path(plain.pop("marks"))
        super().__init__(plain)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _Slow(super().writer(schema, overwrite), self._marks)


class _Slow(DataSourceArrowWriter):
    def __init__(self, sink: Any, marks: Path) -> None:
        self._sink = sink
        self._marks = marks

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message: WriterCommitMessage = self._sink.write(iterator)
        context = TaskContext.get()
        assert context is not None
        self._mark(context.partitionId(), context.attemptNumber()).touch()
        if (context.partitionId(), context.attemptNumber()) == (0, 0):
            while not self._mark(0, 1).exists():
                time.sleep(0.05)
        return message

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._sink.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._sink.abort(messages)

    def _mark(self, partition: int, attempt: int) -> Path:
        return self._marks / f"{partition}-{attempt}"


def standalone(hosts: tuple[str, ...], directory: str) -> str:
    """A standalone master, and a worker with one core at each address, all in the driver's JVM; the master's address.

    They end with the driver, and executors with their workers.
    """
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    deploy, gateway = jvm.org.apache.spark.deploy, SparkContext._gateway
    assert gateway is not None
    conf = jvm.org.apache.spark.SparkConf(False).set("spark.master.rest.enabled", "false")
    started = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)
    address = f"spark://{started._1().address().hostPort()}"
    masters = gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = address
    nothing = jvm.scala.Option.empty()
    for host in hosts:
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, 1, 1024, masters, f"{directory}/{host}", nothing, conf, nothing
        )
    return address


def main(bootstrap: str, directory: str) -> None:
    session = (
        SparkSession.builder.master(standalone(("127.0.0.2", "127.0.0.3"), directory))
        .appName("ithaca-speculation")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.cores.max", "2")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.extraJavaOptions", QUICK_JVM)
        .config("spark.executorEnv.PYTHONPATH", ":".join(filter(None, sys.path)))
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
        .config("spark.ui.enabled", "false")
        .config("spark.speculation", "true")
        .config("spark.speculation.interval", "100ms")
        .config("spark.speculation.quantile", "0.5")
        .config("spark.speculation.multiplier", "1.1")
        .config("spark.speculation.minTaskRuntime", "100ms")
        .getOrCreate()
    )
    session.dataSource.register(SlowAtFirst)
    frame = session.range(0, ROWS, 1, 2).selectExpr("cast(id as string) as value")
    frame.write.format("slow-ithaca").options(bootstrap=bootstrap, marks=f"{directory}/marks").mode("append").save()
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
