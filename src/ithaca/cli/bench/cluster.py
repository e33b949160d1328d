"""`ithaca bench append|read|subscribe|latency`: wires the command line to the measurements of a cluster."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ithaca.cli.bench.options import (
    BENCH_DIRECTORY,
    BatchOption,
    DirectoryOption,
    FreshDurabilityOption,
    FreshSegmentOption,
    OrderersOption,
    ProfileOption,
    RecordBytesOption,
    ReplicasOption,
    RoundsOption,
    RunningClusterOption,
    SecondsOption,
    ShardsOption,
)
from ithaca.cli.bench.report import print_rates
from ithaca.cli.options import FreshEngineOption, JsonOption, examples, parse_size
from ithaca.cli.progress import status_line
from ithaca.model.engine import DEFAULT_ENGINE, EngineName

if TYPE_CHECKING:
    from ithaca.bench.cluster.read import ReadSettings
    from ithaca.cli.options import DurabilityName
    from ithaca.cluster.temporary import Shape

APPEND_EXAMPLES = examples(
    "ithaca bench append",
    "ithaca bench append --batch 1000 --record-bytes 100",
    "ithaca bench append --shards 2 --compare-shards",
    "ithaca bench append --dir /dev/shm/bench --profile ./flames   (a memory disk: the CPU's share)",
    "ithaca bench append -b 127.0.0.1:7600 --producers 4 --window 8",
)
LATENCY_EXAMPLES = examples("ithaca bench latency", "ithaca bench latency --record-bytes 100 --json")
SUBSCRIBE_EXAMPLES = examples("ithaca bench subscribe", "ithaca bench subscribe --shards 2 --bytes 1G")
READ_EXAMPLES = examples("ithaca bench read", "ithaca bench read --record-bytes 100 --bytes 64M")

FillOption = Annotated[
    int,
    typer.Option(
        "--bytes", parser=parse_size, metavar="SIZE", show_default="512M", help="What the log is filled with."
    ),
]


def fresh_shape(
    shards: int | None,
    replicas: int | None,
    orderers: int | None,
    durability: "DurabilityName | None",
    segment_bytes: int | None,
    engine: EngineName | None = None,
) -> "Shape":
    """The cluster to be started; small segments, so that a short measurement fills some."""
    from ithaca.cluster.temporary import Shape

    return Shape(
        shards or 1,
        replicas or 2,
        orderers or 3,
        durability or "fsync",
        segment_bytes or 64 << 20,
        engine=engine or DEFAULT_ENGINE,
    )


def chosen_cluster(
    bootstrap: str | None,
    shards: int | None,
    replicas: int | None,
    orderers: int | None,
    durability: "DurabilityName | None",
    segment_bytes: int | None,
    engine: EngineName | None = None,
) -> "str | Shape":
    """The running cluster that the options name, or the shape of the one to be started."""
    if bootstrap is None:
        return fresh_shape(shards, replicas, orderers, durability, segment_bytes, engine)
    names = ("--shards", "--replicas", "--orderers", "--durability", "--segment-bytes", "--engine")
    for name, given in zip(names, (shards, replicas, orderers, durability, segment_bytes, engine), strict=True):
        if given is not None:
            raise typer.BadParameter(f"a running cluster is measured as it is; leave {name} out")
    return bootstrap


def append(
    bootstrap: RunningClusterOption = None,
    directory: DirectoryOption = BENCH_DIRECTORY,
    record_bytes: RecordBytesOption = 4096,
    batch: BatchOption = 64,
    producers: Annotated[
        int | None, typer.Option(min=1, show_default="as many as shards", help="Processes that append.")
    ] = None,
    window: Annotated[int, typer.Option(min=1, help="Batches in flight per producer.")] = 4,
    seconds: SecondsOption = 2.0,
    rounds: RoundsOption = 5,
    shards: ShardsOption = None,
    replicas: ReplicasOption = None,
    orderers: OrderersOption = None,
    durability: FreshDurabilityOption = None,
    segment_bytes: FreshSegmentOption = None,
    engine: FreshEngineOption = None,
    recycle: Annotated[
        bool, typer.Option("--recycle", help="Trim behind the producers, so that segments are written over.")
    ] = False,
    compare_shards: Annotated[
        bool, typer.Option("--compare-shards", help="Alternate with a cluster of one shard, instead of the ceiling.")
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Appends to a cluster, in turns with the same bytes through two bare servers.

    Without --bootstrap a cluster is started for the measurement, and removed
    afterwards. With several shards, producers are pinned to them in turn.
    """
    from ithaca.bench.cluster.append import AppendSettings, run_append
    from ithaca.bench.cluster.shards import run_compare_shards

    if compare_shards and bootstrap is None and shards is None:
        shards = 2
    cluster = chosen_cluster(bootstrap, shards, replicas, orderers, durability, segment_bytes, engine)
    if isinstance(cluster, str) and (recycle or compare_shards):
        raise typer.BadParameter("--recycle and --compare-shards need a cluster of their own; leave --bootstrap out")
    if not isinstance(cluster, str) and compare_shards and cluster.shards == 1:
        raise typer.BadParameter("one shard is compared with several; give --shards 2 or more")
    if compare_shards and profile is not None:
        raise typer.BadParameter("profile one cluster at a time; leave --compare-shards out")
    settings = AppendSettings(
        cluster,
        record_bytes=record_bytes,
        batch=batch,
        producers=producers or (1 if isinstance(cluster, str) else cluster.shards),
        window=window,
        seconds=seconds,
        rounds=rounds,
        recycle=recycle,
    )
    with status_line() as progress:
        if compare_shards:
            report = run_compare_shards(directory, settings, progress)
        else:
            report = run_append(directory, settings, progress, profile)
    print_rates(report, as_json)


def latency(
    bootstrap: RunningClusterOption = None,
    directory: DirectoryOption = BENCH_DIRECTORY,
    record_bytes: RecordBytesOption = 4096,
    seconds: SecondsOption = 2.0,
    rounds: RoundsOption = 5,
    shards: ShardsOption = None,
    replicas: ReplicasOption = None,
    orderers: OrderersOption = None,
    durability: FreshDurabilityOption = None,
    segment_bytes: FreshSegmentOption = None,
    engine: FreshEngineOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """How long a lone append takes: one record, one in flight, until its receipt."""
    from ithaca.bench.cluster.append import AppendSettings, run_latency

    cluster = chosen_cluster(bootstrap, shards, replicas, orderers, durability, segment_bytes, engine)
    settings = AppendSettings(cluster, record_bytes=record_bytes, seconds=seconds, rounds=rounds)
    with status_line() as progress:
        report = run_latency(directory, settings, progress, profile)
    print_rates(report, as_json)


def subscribe(
    bootstrap: RunningClusterOption = None,
    directory: DirectoryOption = BENCH_DIRECTORY,
    byte_count: FillOption = 512 << 20,
    record_bytes: RecordBytesOption = 4096,
    batch: BatchOption = 64,
    rounds: RoundsOption = 5,
    shards: ShardsOption = None,
    replicas: ReplicasOption = None,
    orderers: OrderersOption = None,
    durability: FreshDurabilityOption = None,
    segment_bytes: FreshSegmentOption = None,
    engine: FreshEngineOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """One follower reads everything, as batches and as records, in turns with bare sockets."""
    from ithaca.bench.cluster.read import ReadSettings, run_subscribe

    cluster = chosen_cluster(bootstrap, shards, replicas, orderers, durability, segment_bytes, engine)
    settings = ReadSettings(cluster, bytes=byte_count, record_bytes=record_bytes, batch=batch, rounds=rounds)
    _measure_reading(run_subscribe, directory, settings, profile, as_json)


def read(
    bootstrap: RunningClusterOption = None,
    directory: DirectoryOption = BENCH_DIRECTORY,
    byte_count: FillOption = 512 << 20,
    record_bytes: RecordBytesOption = 4096,
    batch: BatchOption = 64,
    seconds: SecondsOption = 2.0,
    rounds: RoundsOption = 5,
    shards: ShardsOption = None,
    replicas: ReplicasOption = None,
    orderers: OrderersOption = None,
    durability: FreshDurabilityOption = None,
    segment_bytes: FreshSegmentOption = None,
    engine: FreshEngineOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Single records at random places, and a whole range, in turns with bare sockets."""
    from ithaca.bench.cluster.read import ReadSettings, run_read

    cluster = chosen_cluster(bootstrap, shards, replicas, orderers, durability, segment_bytes, engine)
    settings = ReadSettings(
        cluster, bytes=byte_count, record_bytes=record_bytes, batch=batch, seconds=seconds, rounds=rounds
    )
    _measure_reading(run_read, directory, settings, profile, as_json)


def _measure_reading(
    run: Callable[..., dict[str, Any]], directory: Path, settings: "ReadSettings", profile: Path | None, as_json: bool
) -> None:
    with status_line() as progress:
        report = run(directory, settings, progress, profile)
    print_rates(report, as_json)
