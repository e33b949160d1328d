"""`ithaca bench smr|store|versions`: wires the command line to the measurements of state on the log."""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ithaca.cli.bench.options import (
    BENCH_DIRECTORY,
    DirectoryOption,
    FreshCluster,
    RecordBytesOption,
    RoundsOption,
    RunningClusterOption,
    SecondsOption,
    reach,
)
from ithaca.cli.bench.report import print_rates
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import JsonOption, TimeoutOption, examples
from ithaca.cli.output import note
from ithaca.cli.progress import status_line

if TYPE_CHECKING:
    from ithaca.cluster.temporary import Shape
    from ithaca.model.engine import EngineName

SMR_EXAMPLES = examples(
    "ithaca bench smr",
    "ithaca bench smr --embedded --window 32",
    "ithaca bench smr --objects 1,2,4 --plot smr.png",
    "ithaca bench smr --engines scalog,belfast,raft,corfu --plot engines.png",
    "ithaca bench smr --embedded --start 1000000 --rounds 3   (how long a replica takes to start, and what it holds)",
)
STORE_EXAMPLES = examples(
    "ithaca bench store",
    "ithaca bench store --embedded --keys 1,10 --clients 1,2,8",
    "ithaca bench store --keys 1 --mix 0.5,0.95 --engines scalog,raft --plot store.png",
    "ithaca bench store --mirrors 1,2   (local reads by processes)",
)
VERSIONS_EXAMPLES = examples(
    "ithaca bench versions",
    "ithaca bench versions --numbers 1,2,4 --plot versions.png",
    "ithaca bench versions --numbers 1 --engines scalog,belfast",
)

EmbeddedOption = Annotated[bool, typer.Option("--embedded", help="The log of a directory instead of a cluster.")]
ClientsOption = Annotated[int, typer.Option(min=1, help="Threads that wait for their own operations.")]
EnginesOption = Annotated[
    str | None,
    typer.Option(metavar="NAME,...", help="Measure several engines in turns, each on a cluster of its own."),
]


@dataclass(frozen=True, slots=True)
class Run:
    """What every measurement is told."""

    directory: DirectoryOption = BENCH_DIRECTORY
    seconds: SecondsOption = 2.0
    rounds: RoundsOption = 5
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the rates into this PNG file.")] = None
    as_json: JsonOption = False

    def measure(self, run: Callable[..., dict[str, Any]], settings: object) -> None:
        if self.plot is not None:
            from ithaca.bench.experiments.plot import check_can_plot

            check_can_plot()
        with status_line() as progress:
            report = run(self.directory, settings, progress)
        if self.plot is not None:
            from ithaca.bench.objects.plot import draw

            draw(report, self.plot)
            note(f"drawn into {self.plot}")
        print_rates(report, self.as_json)
        if not self.as_json:
            _print_rest(report)


def _print_rest(report: dict[str, Any]) -> None:
    """Processor time, engines beside each other, and what replicas hold."""
    for name, figures in report["contenders"].items():
        if "cpu_us_per_record" in figures:
            print(f"{name}: {figures['cpu_us_per_record']:.2f} µs of processor time for each")
    if "engines" in report:
        from rich.console import Console

        from ithaca.bench.objects.engines import engine_table

        Console(width=140).print(engine_table(report))
    for name, held in report.get("memory", {}).items():
        print(
            f"private memory of {name}: {held['early_rss_anon_bytes'] / 1e6:.1f} MB after "
            f"{held['early_commands']:,} commands, {held['rss_anon_bytes'] / 1e6:.1f} MB after "
            f"{held['commands']:,} ({held['growth_bytes'] / 1e6:+.1f} MB)"
        )


def parse_counts(text: str) -> tuple[int, ...]:
    """Several numbers, as in `1,2,4`.

    >>> parse_counts("1,2,4")
    (1, 2, 4)
    """
    parts = [part.strip() for part in str(text).split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"{text!r} are no numbers from 1 on; write them as 1,2,4")
    return tuple(dict.fromkeys(map(int, parts)))


def parse_shares(text: str | None) -> tuple[float, ...]:
    """Several shares of a whole, as in `0.5,0.95`; none when none are given.

    >>> parse_shares("0.5,0.95")
    (0.5, 0.95)
    """
    try:
        shares = tuple(float(part) for part in text.split(",")) if text is not None else ()
    except ValueError:
        shares = (-1.0,)
    if not all(0 <= share <= 1 for share in shares):
        raise typer.BadParameter(f"{text!r} are no shares between 0 and 1; write them as 0.5,0.95")
    return tuple(dict.fromkeys(shares))


def parse_engines(text: str | None, fresh: FreshCluster, **others: object) -> "tuple[EngineName, ...]":
    """The engines to be compared; `others` say where else to measure, which leaves nothing to compare."""
    if text is None:
        return ()
    from ithaca.engines import registry

    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        registry.engine(name)
    for option, given in {"engine": fresh.engine, **others}.items():
        if given:
            raise typer.BadParameter(f"--engines starts a cluster of each engine; leave --{option} out")
    return names


@with_groups
def smr(
    *,
    bootstrap: RunningClusterOption = None,
    timeout: TimeoutOption = None,
    embedded: EmbeddedOption = False,
    record_bytes: RecordBytesOption = 512,
    objects: Annotated[
        str, typer.Option(metavar="N,...", help="Replicas of the state machine, all in this process.")
    ] = "1",
    window: Annotated[int, typer.Option(min=1, help="Commands in flight per client.")] = 1,
    start: Annotated[
        int, typer.Option(min=0, help="Also have replicas start behind so many commands, and say what one holds.")
    ] = 0,
    clients: ClientsOption = 8,
    engines: EnginesOption = None,
    run: Run,
    fresh: FreshCluster,
) -> None:
    """Commands to a replicated state machine, in turns with appends of the same bytes."""
    from ithaca.bench.objects.smr import SmrSettings, run_smr

    several = parse_engines(engines, fresh, embedded=embedded, bootstrap=bootstrap)
    cluster = _place(embedded, bootstrap, fresh)
    counts = parse_counts(objects)
    reach(bootstrap, timeout)
    settings = SmrSettings(cluster, record_bytes, clients, counts, window, run.seconds, run.rounds, start, several)
    run.measure(run_smr, settings)


@with_groups
def store(
    *,
    bootstrap: RunningClusterOption = None,
    timeout: TimeoutOption = None,
    embedded: EmbeddedOption = False,
    record_bytes: RecordBytesOption = 4096,
    keys: Annotated[str, typer.Option(metavar="N,...", help="Keys in one operation.")] = "1,2,5,10",
    clients: Annotated[str, typer.Option(metavar="N,...", help="Threads that wait for their own operations.")] = "8",
    mix: Annotated[
        str | None, typer.Option(metavar="SHARE,...", help="Also gets and puts by chance, with such shares of gets.")
    ] = None,
    mirrors: Annotated[
        str | None, typer.Option(metavar="N,...", help="Also local gets by processes, each with a replica of its own.")
    ] = None,
    engines: EnginesOption = None,
    run: Run,
    fresh: FreshCluster,
) -> None:
    """Atomic puts and gets of several keys, in turns with append_many of as many records."""
    from ithaca.bench.objects.store import StoreSettings, run_store

    reach(bootstrap, timeout)
    several = parse_engines(engines, fresh, embedded=embedded, bootstrap=bootstrap)
    settings = StoreSettings(
        _place(embedded, bootstrap, fresh),
        record_bytes,
        parse_counts(keys),
        parse_counts(clients),
        parse_shares(mix),
        () if mirrors is None else parse_counts(mirrors),
        several,
        seconds=run.seconds,
        rounds=run.rounds,
    )
    run.measure(run_store, settings)


@with_groups
def versions(
    *,
    record_bytes: RecordBytesOption = 4096,
    numbers: Annotated[str, typer.Option(metavar="N,...", help="A cluster for each number of shards.")] = "1,2",
    clients: ClientsOption = 8,
    engines: EnginesOption = None,
    run: Run,
    fresh: FreshCluster,
) -> None:
    """Versions of objects, put into shards and read from them, in turns with plain appends and reads."""
    from ithaca.bench.objects.versions import VersionsSettings, run_versions

    if fresh.shards is not None:
        raise typer.BadParameter("several sizes are compared; give them as --numbers 1,2 and leave --shards out")
    several, shape = parse_engines(engines, fresh), fresh.shape()
    counts = parse_counts(numbers)
    settings = VersionsSettings(shape, counts, record_bytes, clients, run.seconds, run.rounds, several)
    run.measure(run_versions, settings)


def _place(embedded: bool, bootstrap: str | None, fresh: FreshCluster) -> "str | Shape | None":
    if not embedded:
        return fresh.unless(bootstrap)
    if bootstrap is not None or any(given is not None for given in astuple(fresh)):
        raise typer.BadParameter("--embedded has no cluster; leave its options out")
    return None
