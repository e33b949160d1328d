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

SMR_EXAMPLES = examples(
    "ithaca bench smr",
    "ithaca bench smr --embedded --window 32",
    "ithaca bench smr --objects 1,2,4 --plot smr.png",
    "ithaca bench smr --embedded --start 1000000 --rounds 3   (how long a replica takes to start)",
)
STORE_EXAMPLES = examples(
    "ithaca bench store", "ithaca bench store --embedded --keys 1,10", "ithaca bench store --clients 4 --plot store.png"
)
VERSIONS_EXAMPLES = examples("ithaca bench versions", "ithaca bench versions --numbers 1,2,4 --plot versions.png")

EmbeddedOption = Annotated[bool, typer.Option("--embedded", help="The log of a directory instead of a cluster.")]


@dataclass(frozen=True, slots=True)
class Run:
    """What every measurement is told."""

    directory: DirectoryOption = BENCH_DIRECTORY
    clients: Annotated[int, typer.Option(min=1, help="Threads that wait for their own operations.")] = 8
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


def parse_counts(text: str) -> tuple[int, ...]:
    """Several numbers, as in `1,2,4`.

    >>> parse_counts("1,2,4")
    (1, 2, 4)
    """
    parts = [part.strip() for part in str(text).split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"{text!r} are no numbers from 1 on; write them as 1,2,4")
    return tuple(dict.fromkeys(map(int, parts)))


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
    start: Annotated[int, typer.Option(min=0, help="Also have replicas start behind so many commands.")] = 0,
    run: Run,
    fresh: FreshCluster,
) -> None:
    """Commands to a replicated state machine, in turns with appends of the same bytes."""
    from ithaca.bench.objects.smr import SmrSettings, run_smr

    cluster = _place(embedded, bootstrap, fresh)
    counts = parse_counts(objects)
    reach(bootstrap, timeout)
    settings = SmrSettings(cluster, record_bytes, run.clients, counts, window, run.seconds, run.rounds, start)
    run.measure(run_smr, settings)


@with_groups
def store(
    *,
    bootstrap: RunningClusterOption = None,
    timeout: TimeoutOption = None,
    embedded: EmbeddedOption = False,
    record_bytes: RecordBytesOption = 4096,
    keys: Annotated[str, typer.Option(metavar="N,...", help="Keys in one operation.")] = "1,2,5,10",
    run: Run,
    fresh: FreshCluster,
) -> None:
    """Atomic puts and gets of several keys, in turns with append_many of as many records."""
    from ithaca.bench.objects.store import StoreSettings, run_store

    cluster = _place(embedded, bootstrap, fresh)
    counts = parse_counts(keys)
    reach(bootstrap, timeout)
    settings = StoreSettings(cluster, record_bytes, counts, run.clients, seconds=run.seconds, rounds=run.rounds)
    run.measure(run_store, settings)


@with_groups
def versions(
    *,
    record_bytes: RecordBytesOption = 4096,
    numbers: Annotated[str, typer.Option(metavar="N,...", help="A cluster for each number of shards.")] = "1,2",
    run: Run,
    fresh: FreshCluster,
) -> None:
    """Versions of objects, put into shards and read from them, in turns with plain appends and reads."""
    from ithaca.bench.objects.versions import VersionsSettings, run_versions

    if fresh.shards is not None:
        raise typer.BadParameter("several sizes are compared; give them as --numbers 1,2 and leave --shards out")
    shape = fresh.shape()
    settings = VersionsSettings(shape, parse_counts(numbers), record_bytes, run.clients, run.seconds, run.rounds)
    run.measure(run_versions, settings)


def _place(embedded: bool, bootstrap: str | None, fresh: FreshCluster) -> "str | Shape | None":
    if not embedded:
        return fresh.unless(bootstrap)
    if bootstrap is not None or any(given is not None for given in astuple(fresh)):
        raise typer.BadParameter("--embedded has no cluster; leave its options out")
    return None
