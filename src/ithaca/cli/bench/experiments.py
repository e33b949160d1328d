"""`ithaca bench reconfigure|failures`: wires the command line to the experiments on a running cluster."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ithaca.cli.bench.emulate import MEMORY_DISK
from ithaca.cli.bench.options import DirectoryOption, RecordBytesOption, RoundsOption
from ithaca.cli.bench.report import print_surroundings
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import EngineOption, JsonOption, examples
from ithaca.cli.output import emit_json, note
from ithaca.cli.progress import status_line
from ithaca.model.engine import DEFAULT_ENGINE

if TYPE_CHECKING:
    from ithaca.bench.experiments.experiment import ExperimentSettings

RECONFIGURE_EXAMPLES = examples(
    "ithaca bench reconfigure",
    "ithaca bench reconfigure --shards 2 --rounds 1 --seconds 3 --at 1 --no-plot",
    "ithaca bench reconfigure --plot ./reconfigure.png --json",
)
FAILURES_EXAMPLES = examples(
    "ithaca bench failures",
    "ithaca bench failures --shards 2 --rounds 1 --detect 0.5 --plot ./failures.png",
    "ithaca bench failures --records-per-s 1000 --json",
)


@dataclass(frozen=True, slots=True)
class Experiment:
    """Something happens to a cluster under load."""

    shards: Annotated[int, typer.Option(min=2, help="Shards, and as many clients.")] = 6
    replicas: Annotated[int, typer.Option(min=2, help="Replicas of each shard.")] = 2
    record_bytes: RecordBytesOption = 4096
    batch: Annotated[int, typer.Option(min=1, help="Records per batch.")] = 4
    seconds: Annotated[float, typer.Option(min=0.1, help="Per turn.")] = 6.0
    at: Annotated[float, typer.Option(min=0.01, help="When it happens, in seconds from a turn's start.")] = 2.0
    rounds: RoundsOption = 5
    share: Annotated[float, typer.Option(min=0.01, max=1, help="Load, as a share of the measured capacity.")] = 1 / 3
    records_per_s: Annotated[float | None, typer.Option(min=1, help="The load; the capacity is not measured then.")] = (
        None
    )
    engine: EngineOption = DEFAULT_ENGINE

    def settings(self) -> "ExperimentSettings":
        from ithaca.bench.experiments.experiment import ExperimentSettings

        return ExperimentSettings(
            shards=self.shards,
            replicas=self.replicas,
            record_bytes=self.record_bytes,
            batch=self.batch,
            seconds=self.seconds,
            at_s=self.at,
            rounds=self.rounds,
            share=self.share,
            batches_per_s=None if self.records_per_s is None else self.records_per_s / self.batch,
            engine=self.engine,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of it."""

    directory: DirectoryOption = MEMORY_DISK
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw throughput over time into FILE.")] = None
    no_plot: Annotated[bool, typer.Option("--no-plot", help="Draw nothing.")] = False
    as_json: JsonOption = False

    def picture(self, name: str) -> Path | None:
        return None if self.no_plot else self.plot or Path(name)


@with_groups
def reconfigure(experiment: Experiment, outcome: Outcome) -> None:
    """A shard is added and another finalized, under load.

    Turns in which that happens alternate with undisturbed ones. Compared is
    the longest time without an acknowledgement, of all clients together and of
    those of the shard that goes.
    """
    from ithaca.bench.experiments.reconfigure import run_reconfigure

    settings = experiment.settings()
    measure = partial(run_reconfigure, outcome.directory, settings)
    _print(_run(measure, outcome.picture("reconfigure.png")), outcome.as_json)


@with_groups
def failures(
    experiment: Experiment,
    detect: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="A replica that is silent for so long has failed.")
    ] = 1.0,
    *,
    outcome: Outcome,
) -> None:
    """Servers are killed with -9, under load: the leading orderer, another one, a replica.

    Turns in which that happens alternate with undisturbed ones. The shard
    that lost a replica is finalized by the cluster itself, and one of spares
    takes its place.
    """
    from ithaca.bench.experiments.failures import run_failures

    settings = experiment.settings()
    measure = partial(run_failures, outcome.directory, settings, detect_s=detect)
    _print(_run(measure, outcome.picture("failures.png")), outcome.as_json)


def _run(measure: Callable[[Callable[[str], object]], dict[str, Any]], picture: Path | None) -> dict[str, Any]:
    """Measure, and draw if that is wanted; whether it can be drawn is known before."""
    if picture is not None:
        from ithaca.bench.experiments.plot import check_can_plot, draw

        check_can_plot()
    with status_line() as progress:
        report = measure(progress)
        if picture is not None:
            progress("drawing")
            draw(report, picture)
    report["plot"] = None if picture is None else str(picture)
    return report


def _print(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit_json(report)
        return
    from rich.console import Console

    print_surroundings(report)
    settings, capacity = report["settings"], report["capacity_records_per_s"]
    measured = "" if capacity is None else f", {settings['share']:.0%} of {capacity:,.0f}"
    print(
        f"{settings['shards']} shards of {settings['replicas']} replicas, {settings['orderers']} orderers; load: "
        f"{report['load_records_per_s']:,.0f} records/s of {settings['record_bytes']} bytes{measured}"
    )
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(_table(report))
    for name, scenario in report["scenarios"].items():
        for figure, text in _SENTENCES.items():
            if figure in scenario:
                print(f"{name}: {text} {_figure(figure, scenario[figure])} ({_rounds(report, name, figure)})")
    if report["plot"] is not None:
        note(f"the first round is drawn in {report['plot']}")


_SENTENCES = {
    "extra_gap_ms": "longest gap beyond the undisturbed one",
    "records_ratio": "records beside the undisturbed turn",
    "opened_ms": "from asking for the shard to its open lanes",
    "finalized_ms": "from asking for the shard to the end of the other",
    "moved_clients_extra_gap_ms": "longest gap of the clients that moved, beyond the undisturbed one",
    "resumed_ms": "from the kill to the first acknowledgement after the gap",
    "caught_up_ms": "from the kill until what queued up was acknowledged",
    "detection_ms": "from the kill to its detection",
    "restored_ms": "from the detection until the shard's clients were served",
    "others_ratio": "records of all other clients beside the undisturbed turn",
    "others_extra_gap_ms": "longest gap of all other clients beyond the undisturbed one",
}
"""What each figure says, in words."""


def _table(report: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(title=f"{report['bench']}: medians over the rounds", title_justify="left")
    table.add_column("")
    headings = ("records", "to undisturbed", "longest gap ms", "more than undisturbed ms", "p50 ms", "p99 ms", "max ms")
    for heading in (*headings, "failed"):
        table.add_column(heading, justify="right")
    for name, figures in report["scenarios"].items():
        latency = figures["latency_ms"]
        table.add_row(
            name,
            f"{figures['records']:,.0f}",
            *(_figure(each, figures[each]) if each in figures else "" for each in ("records_ratio",)),
            _figure("longest_gap_ms", figures["longest_gap_ms"]),
            *(_figure(each, figures[each]) if each in figures else "" for each in ("extra_gap_ms",)),
            *(_figure(f"{each}_ms", latency[each]) for each in ("p50", "p99", "max")),
            str(figures["failed_batches"]),
        )
    return table


def _rounds(report: dict[str, Any], name: str, figure: str) -> str:
    return " ".join(_figure(figure, turns[name][figure]) for turns in report["rounds"])


def _figure(name: str, value: float | None) -> str:
    """A figure for people.

    >>> _figure("gap_ms", 12.345), _figure("records_ratio", 0.98765), _figure("resumed_ms", None)
    ('12.3', '0.988', 'never')
    """
    if value is None:
        return "never"
    return f"{value:.1f}" if name.endswith("_ms") else f"{value:.3f}"
