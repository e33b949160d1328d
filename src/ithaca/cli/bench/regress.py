"""`ithaca bench regress`: wires the command line to the comparison of trees."""

import sys
from typing import Annotated, Any

import typer

from ithaca.cli.bench.options import BENCH_DIRECTORY, DirectoryOption, RoundsOption, SecondsOption
from ithaca.cli.bench.report import print_surroundings
from ithaca.cli.options import FreshEngineOption, JsonOption, examples
from ithaca.cli.output import emit_json
from ithaca.cli.progress import status_line
from ithaca.model.engine import DEFAULT_ENGINE

REGRESS_EXAMPLES = examples(
    "ithaca bench regress HEAD~1",
    "ithaca bench regress main --dir /dev/shm/bench --workload batches --rounds 7",
    "ithaca bench regress ../another/tree --json",
)


def regress(
    against: Annotated[str, typer.Argument(metavar="COMMIT", help="A commit, or a directory with another tree.")],
    directory: DirectoryOption = BENCH_DIRECTORY,
    workload: Annotated[
        list[str] | None,
        typer.Option(help="Only this, more than once for several: batches, small, single, lone, large, range."),
    ] = None,
    seconds: SecondsOption = 1.5,
    rounds: RoundsOption = 5,
    engine: FreshEngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """This tree against another commit, in turns: CPU per operation, rates, latencies, and a verdict on each.

    A verdict other than "unclear" needs five rounds. Ends with status 1 if an
    operation costs more CPU than before, beyond the noise.
    """
    from ithaca.bench.regress.comparing import RegressSettings, run_regress
    from ithaca.bench.regress.workloads import WORKLOADS

    chosen = tuple(workload) if workload else tuple(WORKLOADS)
    for name in chosen:
        if name not in WORKLOADS:
            raise typer.BadParameter(f"there is no workload {name!r}; there are {', '.join(WORKLOADS)}")
    settings = RegressSettings(against, chosen, seconds, rounds, engine or DEFAULT_ENGINE)
    with status_line() as progress:
        report = run_regress(directory, settings, progress)
    if as_json:
        emit_json(report)
    else:
        _print_table(report)
    if report["worse"]:
        raise typer.Exit(1)


def _print_table(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    print_surroundings(report)
    table = Table(title=f"{report['this']} against {report['other']}, this / other", title_justify="left")
    table.add_column("workload")
    for heading in ("CPU per operation, ms", "CPU", "rate", "p50", "share of the ceiling", "p50 by ceiling"):
        table.add_column(heading, justify="right")
    for name, figures in report["workloads"].items():
        this, other = figures["this"], figures["other"]
        table.add_row(
            name,
            f"{this['cpu_ms_per_operation']:.3f} / {other['cpu_ms_per_operation']:.3f}",
            *(_in_words(figures[which]) for which in ("cpu", "rate", "p50")),
            *(
                f"{this[which]:.2f} / {other[which]:.2f}" if which in this else ""
                for which in ("share_of_ceiling", "p50_by_ceiling")
            ),
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    for name in report["worse"]:
        print(f"{name}: an operation costs more CPU than in {report['other']}")


def _in_words(judged: dict[str, Any]) -> str:
    """The median, where it lies, and the verdict.

    >>> _in_words({"ratio": 0.8, "interval": [0.75, 0.84], "verdict": "better"})
    '0.80 (0.75 to 0.84) better'
    """
    interval = judged["interval"]
    where = "" if interval is None else f" ({interval[0]:.2f} to {interval[1]:.2f})"
    return f"{judged['ratio']:.2f}{where} {judged['verdict']}"
