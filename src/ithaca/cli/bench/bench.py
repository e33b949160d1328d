"""`ithaca bench ...`: wires the command line to `ithaca.bench`."""

from typing import Annotated

import typer

from ithaca.cli.bench import (
    cluster,
    compare,
    consumers,
    corfu,
    emulate,
    experiments,
    keeping,
    objects,
    raft,
    regress,
    spark,
    speculation,
)
from ithaca.cli.bench.options import (
    BENCH_DIRECTORY,
    BatchOption,
    DirectoryOption,
    FreshCluster,
    RecordBytesOption,
    RoundsOption,
    SecondsOption,
    SegmentOption,
)
from ithaca.cli.bench.report import print_cluster_memory, print_memory, print_rates
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import CompressionOption, DurabilityOption, JsonOption, examples, parse_size
from ithaca.cli.progress import status_line

CEILING_EXAMPLES = examples(
    "ithaca bench ceiling",
    "ithaca bench ceiling --batch 1 --record-bytes 100",
    "ithaca bench ceiling --replicas 2 --window 8 --json",
)
EMBEDDED_EXAMPLES = examples(
    "ithaca bench embedded",
    "ithaca bench embedded --batch 1000 --record-bytes 100",
    "ithaca bench embedded --batch 1 --no-read",
    "ithaca bench embedded --window 8 --no-read   (pipelined: submit_many)",
    "ithaca bench embedded --dir /dev/shm/bench   (a memory disk: the CPU's share)",
)
MEMORY_EXAMPLES = examples(
    "ithaca bench memory --bytes 10G",
    "ithaca bench memory --bytes 2G --json",
    "ithaca bench memory --cluster --bytes 10G",
)

app = typer.Typer(
    no_args_is_help=True,
    help="Measure the log against what this machine can do at all.",
    epilog=examples(
        "ithaca bench ceiling",
        "ithaca bench embedded --batch 1000",
        "ithaca bench append --shards 2",
        "ithaca bench read",
    ),
)


@app.command(epilog=CEILING_EXAMPLES)
def ceiling(
    directory: DirectoryOption = BENCH_DIRECTORY,
    record_bytes: RecordBytesOption = 4096,
    batch: BatchOption = 64,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Per measurement; 2 unless --bytes is given.")
    ] = None,
    byte_count: Annotated[
        int | None, typer.Option("--bytes", parser=parse_size, metavar="SIZE", help="Per measurement.")
    ] = None,
    rounds: RoundsOption = 3,
    replicas: Annotated[int, typer.Option(min=1, max=2, help="2: a client and two servers over TCP.")] = 1,
    window: Annotated[int, typer.Option(min=1, help="Batches in flight, with two replicas.")] = 4,
    durability: DurabilityOption = "fsync",
    segment_bytes: SegmentOption = 64 << 20,
    as_json: JsonOption = False,
) -> None:
    """Bare write and sync of batches, over a prewritten and over a growing file."""
    from ithaca.bench.bare import CeilingSettings
    from ithaca.bench.ceiling import run_ceiling

    settings = CeilingSettings(
        record_bytes=record_bytes,
        batch=batch,
        seconds=2.0 if seconds is None and byte_count is None else seconds,
        bytes=byte_count,
        rounds=rounds,
        replicas=replicas,
        window=window,
        file_bytes=segment_bytes,
        durability=durability,
    )
    with status_line() as progress:
        report = run_ceiling(directory, settings, progress)
    print_rates(report, as_json)


@app.command(epilog=EMBEDDED_EXAMPLES)
def embedded(
    directory: DirectoryOption = BENCH_DIRECTORY,
    record_bytes: RecordBytesOption = 4096,
    batch: BatchOption = 64,
    seconds: SecondsOption = 2.0,
    rounds: RoundsOption = 5,
    durability: DurabilityOption = "fsync",
    compression: CompressionOption = "none",
    threads: Annotated[
        int, typer.Option(min=1, help="Threads that append to the same log, and that write to the bare file.")
    ] = 1,
    window: Annotated[
        int, typer.Option(min=1, help="Batches that each thread submits before it waits for the oldest.")
    ] = 1,
    read: Annotated[bool, typer.Option("--read/--no-read", help="Also measure reading.")] = True,
    read_bytes: Annotated[
        int,
        typer.Option(parser=parse_size, metavar="SIZE", show_default="256M", help="How much is read back."),
    ] = 256 << 20,
    segment_bytes: SegmentOption = 64 << 20,
    as_json: JsonOption = False,
) -> None:
    """The embedded log against the bare file, in turns: recycled with prewritten, fresh with growing."""
    from ithaca.bench.embedded import EmbeddedSettings, run_embedded

    settings = EmbeddedSettings(
        record_bytes=record_bytes,
        batch=batch,
        seconds=seconds,
        rounds=rounds,
        durability=durability,
        compression=compression,
        threads=threads,
        window=window,
        read=read,
        read_bytes=read_bytes,
        segment_bytes=segment_bytes,
    )
    with status_line() as progress:
        report = run_embedded(directory, settings, progress)
    print_rates(report, as_json)


@app.command(epilog=MEMORY_EXAMPLES)
@with_groups
def memory(
    *,
    cluster: Annotated[bool, typer.Option("--cluster", help="Of every server of a cluster, which is started.")] = False,
    directory: DirectoryOption = BENCH_DIRECTORY,
    byte_count: Annotated[
        int,
        typer.Option("--bytes", parser=parse_size, metavar="SIZE", show_default="10G", help="How much to append."),
    ] = 10 << 30,
    baseline_bytes: Annotated[
        int,
        typer.Option(parser=parse_size, metavar="SIZE", show_default="1G", help="Note memory first after so much."),
    ] = 1 << 30,
    record_bytes: RecordBytesOption = 4096,
    batch: BatchOption = 64,
    fresh: FreshCluster,
    as_json: JsonOption = False,
) -> None:
    """Append with retention and read along; print private memory early and at the end.

    Of an embedded log, in one process; with --cluster, of every server of a
    cluster while a follower reads along and the log is trimmed behind it.
    """
    if cluster:
        from ithaca.bench.cluster.memory import ClusterMemorySettings, run_cluster_memory

        passing = ClusterMemorySettings(fresh.shape(), byte_count, baseline_bytes, record_bytes, batch)
        with status_line() as progress:
            report = run_cluster_memory(directory, passing, progress)
        print_cluster_memory(report, as_json)
        return
    from ithaca.bench.memory import MemorySettings, run_memory

    segment_bytes = fresh.segment_bytes or 64 << 20
    settings = MemorySettings(
        bytes=byte_count,
        baseline_bytes=baseline_bytes,
        record_bytes=record_bytes,
        batch=batch,
        retention_bytes=4 * segment_bytes,
        segment_bytes=segment_bytes,
        durability=fresh.durability or "fsync",
    )
    with status_line() as progress:
        report = run_memory(directory, settings, progress)
    print_memory(report, as_json)


app.command(epilog=keeping.BACKUP_EXAMPLES)(keeping.backup)
app.command(epilog=cluster.APPEND_EXAMPLES)(cluster.append)
app.command(epilog=cluster.LATENCY_EXAMPLES)(cluster.latency)
app.command(epilog=cluster.SUBSCRIBE_EXAMPLES)(cluster.subscribe)
app.command(epilog=consumers.EXAMPLES)(consumers.consumers)
app.command(epilog=cluster.READ_EXAMPLES)(cluster.read)
app.command(epilog=spark.SPARK_EXAMPLES)(spark.spark)
app.command(epilog=emulate.EMULATE_EXAMPLES)(emulate.emulate)
app.command(epilog=experiments.RECONFIGURE_EXAMPLES)(experiments.reconfigure)
app.command(epilog=experiments.FAILURES_EXAMPLES)(experiments.failures)
app.command(epilog=objects.SMR_EXAMPLES)(objects.smr)
app.command(epilog=objects.STORE_EXAMPLES)(objects.store)
app.command(epilog=objects.VERSIONS_EXAMPLES)(objects.versions)
app.command(epilog=compare.COMPARE_EXAMPLES)(compare.compare)
app.command(epilog=regress.REGRESS_EXAMPLES)(regress.regress)
app.add_typer(raft.app, name="raft")
app.add_typer(corfu.app, name="corfu")
app.add_typer(speculation.app, name="speculation")
