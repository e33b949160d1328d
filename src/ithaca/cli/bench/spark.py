"""`ithaca bench spark`: wires the command line to the measurement of `ithaca.spark`."""

from typing import Annotated

import typer

from ithaca.cli.bench.options import (
    BENCH_DIRECTORY,
    BatchOption,
    DirectoryOption,
    FreshCluster,
    RecordBytesOption,
    RoundsOption,
    RunningClusterOption,
    reach,
)
from ithaca.cli.bench.report import print_rates
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import JsonOption, TimeoutOption, examples, parse_size
from ithaca.cli.progress import status_line

SPARK_EXAMPLES = examples(
    "ithaca bench spark",
    "ithaca bench spark --bytes 256M --rounds 5",
    "ithaca bench spark --engine raft --replicas 1",
    "ithaca bench spark --shards 2 --kafka",
)


@with_groups
def spark(
    *,
    bootstrap: RunningClusterOption = None,
    timeout: TimeoutOption = None,
    directory: DirectoryOption = BENCH_DIRECTORY,
    byte_count: Annotated[
        int,
        typer.Option(
            "--bytes", parser=parse_size, metavar="SIZE", show_default="2G", help="What the log is filled with."
        ),
    ] = 2 << 30,
    copy_bytes: Annotated[
        int, typer.Option(parser=parse_size, metavar="SIZE", show_default="512M", help="How much of it is copied.")
    ] = 512 << 20,
    record_bytes: RecordBytesOption = 4096,
    batch: BatchOption = 64,
    rounds: RoundsOption = 3,
    cores: Annotated[int, typer.Option(min=1, help="Tasks at a time.")] = 2,
    kafka: Annotated[
        bool,
        typer.Option(
            "--kafka",
            help="Have Spark's own Kafka source read the same records in the same turns, from a broker of one process "
            "that is started for it. The first time, some 100 MB are downloaded from Maven Central.",
        ),
    ] = False,
    fresh: FreshCluster,
    as_json: JsonOption = False,
) -> None:
    """A scan of the log by Spark, in turns with Spark reading the same bytes from memory; then streaming copies.

    Needs the extra `spark` and Java 17 or newer. Latencies are those of whole
    queries, and of micro-batches. Copies are exactly once, or at least once
    with an engine that has no prepared appends (--engine raft, corfu).
    """
    cluster = fresh.unless(bootstrap)
    reach(bootstrap, timeout)
    from ithaca.bench.spark.scan import SparkSettings, run_spark

    settings = SparkSettings(cluster, byte_count, copy_bytes, record_bytes, batch, rounds, cores, kafka)
    with status_line() as progress:
        report = run_spark(directory, settings, progress)
    print_rates(report, as_json)
    if kafka and not as_json:
        print(
            "Spark {spark}, its Kafka source {source}, Kafka {broker}, {partitions} partitions".format(
                **report["kafka"]
            )
        )
