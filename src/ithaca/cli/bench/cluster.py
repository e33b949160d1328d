"""`ithaca bench append|read|subscribe|latency`: wires the command line to the measurements of a cluster."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ithaca.cli.bench.options import (
    BENCH_DIRECTORY,
    BatchOption,
    DirectoryOption,
    FreshCluster,
    ProfileOption,
    RecordBytesOption,
    RoundsOption,
    RunningClusterOption,
    SecondsOption,
    reach,
)
from ithaca.cli.bench.report import print_rates
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import JsonOption, TimeoutOption, examples, parse_size
from ithaca.cli.progress import status_line

if TYPE_CHECKING:
    from ithaca.cluster.temporary import Shape

APPEND_EXAMPLES = examples(
    "ithaca bench append",
    "ithaca bench append --batch 1000 --record-bytes 100",
    "ithaca bench append --shards 2 --compare-shards",
    "ithaca bench append --compare-tls",
    "ithaca bench append --compare-users --recycle",
    "ithaca bench append --dir /dev/shm/bench --profile ./flames   (a memory disk: the CPU's share)",
    "ithaca bench append -b 127.0.0.1:7600 --producers 4 --window 8",
)
LATENCY_EXAMPLES = examples(
    "ithaca bench latency", "ithaca bench latency --compare-tls", "ithaca bench latency --record-bytes 100 --json"
)
SUBSCRIBE_EXAMPLES = examples("ithaca bench subscribe", "ithaca bench subscribe --shards 2 --bytes 1G")
READ_EXAMPLES = examples("ithaca bench read", "ithaca bench read --record-bytes 100 --bytes 64M")

FillOption = Annotated[
    int,
    typer.Option(
        "--bytes", parser=parse_size, metavar="SIZE", show_default="512M", help="What the log is filled with."
    ),
]


CompareTlsOption = Annotated[
    bool, typer.Option("--compare-tls", help="Alternate with a cluster that has TLS, instead of the ceiling.")
]


CompareUsersOption = Annotated[
    bool,
    typer.Option(
        "--compare-users",
        help="Alternate with a cluster that has users, alone and beside a user at its limit.",
    ),
]


@dataclass(frozen=True, slots=True)
class Run:
    """What every measurement is told."""

    bootstrap: RunningClusterOption = None
    timeout: TimeoutOption = None
    directory: DirectoryOption = BENCH_DIRECTORY
    record_bytes: RecordBytesOption = 4096
    rounds: RoundsOption = 5
    profile: ProfileOption = None
    as_json: JsonOption = False

    def measure(self, run: Callable[..., dict[str, Any]], settings: object) -> None:
        reach(self.bootstrap, self.timeout)
        drawn = {} if self.profile is None else {"profile": self.profile}
        with status_line() as progress:
            report = run(self.directory, settings, progress, **drawn)
        print_rates(report, self.as_json)


@with_groups
def append(
    *,
    run: Run,
    batch: BatchOption = 64,
    producers: Annotated[
        int | None, typer.Option(min=1, show_default="as many as shards", help="Processes that append.")
    ] = None,
    window: Annotated[int, typer.Option(min=1, help="Batches in flight per producer.")] = 4,
    seconds: SecondsOption = 2.0,
    fresh: FreshCluster,
    recycle: Annotated[
        bool, typer.Option("--recycle", help="Trim behind the producers, so that segments are written over.")
    ] = False,
    compare_shards: Annotated[
        bool, typer.Option("--compare-shards", help="Alternate with a cluster of one shard, instead of the ceiling.")
    ] = False,
    compare_tls: CompareTlsOption = False,
    compare_users: CompareUsersOption = False,
) -> None:
    """Appends to a cluster, in turns with the same bytes through two bare servers.

    Without --bootstrap a cluster is started for the measurement, and removed
    afterwards. With several shards, producers are pinned to them in turn.
    """
    from ithaca.bench.cluster.append import AppendSettings, run_append
    from ithaca.bench.cluster.shards import run_compare_shards
    from ithaca.bench.cluster.tls import run_compare_tls
    from ithaca.bench.cluster.users import run_compare_users

    if compare_shards and run.bootstrap is None and fresh.shards is None:
        fresh = replace(fresh, shards=2)
    cluster = fresh.unless(run.bootstrap)
    if compare_shards + compare_tls + compare_users > 1:
        raise typer.BadParameter("compare one thing at a time: --compare-shards, --compare-tls or --compare-users")
    _check_compared(run, cluster, "tls", compare_tls)
    _check_compared(run, cluster, "users", compare_users)
    if isinstance(cluster, str) and (recycle or compare_shards):
        raise typer.BadParameter("--recycle and --compare-shards need a cluster of their own; leave --bootstrap out")
    if not isinstance(cluster, str) and compare_shards and cluster.shards == 1:
        raise typer.BadParameter("one shard is compared with several; give --shards 2 or more")
    if compare_shards and run.profile is not None:
        raise typer.BadParameter("profile one cluster at a time; leave --compare-shards out")
    settings = AppendSettings(
        cluster,
        record_bytes=run.record_bytes,
        batch=batch,
        producers=producers or (1 if isinstance(cluster, str) else cluster.shards),
        window=window,
        seconds=seconds,
        rounds=run.rounds,
        recycle=recycle,
    )
    compared = {run_compare_shards: compare_shards, run_compare_tls: compare_tls, run_compare_users: compare_users}
    run.measure(next((compare for compare, is_wanted in compared.items() if is_wanted), run_append), settings)


@with_groups
def latency(
    *,
    run: Run,
    seconds: SecondsOption = 2.0,
    fresh: FreshCluster,
    compare_tls: CompareTlsOption = False,
    compare_users: CompareUsersOption = False,
) -> None:
    """How long a lone append takes: one record, one in flight, until its receipt."""
    from ithaca.bench.cluster.append import AppendSettings, run_latency
    from ithaca.bench.cluster.tls import run_compare_tls_latency
    from ithaca.bench.cluster.users import run_compare_users_latency

    cluster = fresh.unless(run.bootstrap)
    if compare_tls and compare_users:
        raise typer.BadParameter("compare one thing at a time: --compare-tls or --compare-users")
    _check_compared(run, cluster, "tls", compare_tls)
    _check_compared(run, cluster, "users", compare_users)
    settings = AppendSettings(cluster, record_bytes=run.record_bytes, seconds=seconds, rounds=run.rounds)
    compare = run_compare_users_latency if compare_users else run_compare_tls_latency if compare_tls else run_latency
    run.measure(compare, settings)


def _check_compared(run: Run, cluster: "str | Shape", what: str, is_wanted: bool) -> None:
    if is_wanted and isinstance(cluster, str):
        raise typer.BadParameter(f"--compare-{what} needs clusters of its own; leave --bootstrap out")
    if is_wanted and run.profile is not None:
        raise typer.BadParameter(f"profile one cluster at a time; leave --compare-{what} out")


@with_groups
def subscribe(*, run: Run, byte_count: FillOption = 512 << 20, batch: BatchOption = 64, fresh: FreshCluster) -> None:
    """One follower reads everything, as batches and as records, in turns with bare sockets."""
    from ithaca.bench.cluster.read import ReadSettings, run_subscribe

    cluster = fresh.unless(run.bootstrap)
    run.measure(run_subscribe, ReadSettings(cluster, byte_count, run.record_bytes, batch, rounds=run.rounds))


@with_groups
def read(
    *,
    run: Run,
    byte_count: FillOption = 512 << 20,
    batch: BatchOption = 64,
    seconds: SecondsOption = 2.0,
    fresh: FreshCluster,
) -> None:
    """Single records at random places, and a whole range, in turns with bare sockets."""
    from ithaca.bench.cluster.read import ReadSettings, run_read

    cluster = fresh.unless(run.bootstrap)
    run.measure(run_read, ReadSettings(cluster, byte_count, run.record_bytes, batch, seconds, run.rounds))
