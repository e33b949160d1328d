"""`ithaca torture --soak`: wires the command line to `ithaca.torture.soak`."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ithaca.bench.experiments.plot import check_can_plot
from ithaca.cli.output import emit
from ithaca.torture.soak.picture import draw
from ithaca.torture.soak.run import SoakOptions, SoakOutcome, report, soak, steps_of
from ithaca.torture.soak.verdict import GROWTH_MAX


def run_soak(options: SoakOptions, directory: Path | None, picture: Path | None, *, as_json: bool) -> bool:
    """Do a soak, print what came of it and draw it; whether nothing has grown."""
    if picture is not None:
        check_can_plot()
    with _display(steps_of(options)) as (tell, advance):
        outcome = soak(options, directory=directory, tell=tell, advance=advance)
    if picture is not None and outcome.rounds:
        draw(outcome.rounds, picture)
    if as_json:
        emit(json.dumps(report(outcome), separators=(",", ":")).encode() + b"\n")
    else:
        _print(outcome, picture)
    return outcome.is_green


def _print(outcome: SoakOutcome, picture: Path | None) -> None:
    lines = [f"{'':<20} {'first rounds':>14} {'last rounds':>14}"]
    for figure in outcome.figures:
        verdict = f"GREW by more than {GROWTH_MAX:.0%}" if figure.has_grown else ""
        compared = f"{figure.first:>14.2f} {figure.last:>14.2f} {figure.unit:<8} {figure.growth:+7.1%}"
        lines.append(f"{figure.name:<20} {compared} {verdict}".rstrip())
    if outcome.failure is not None:
        lines.append(f"it ended {outcome.failure}")
    if picture is not None and outcome.rounds:
        lines.append(f"the rounds are drawn in {picture}")
    grown = [figure.name for figure in outcome.figures if figure.has_grown]
    says = "nothing has grown" if outcome.is_green else f"not as on the first day: {', '.join(grown) or 'it failed'}"
    lines.append(f"{'green' if outcome.is_green else 'red'}: {says} ({outcome.seconds:.0f} s)")
    emit("".join(f"{line}\n" for line in lines).encode())


@contextmanager
def _display(steps: int) -> Iterator[tuple[Callable[[str], object], Callable[[], object]]]:
    """A bar below the rounds, on a terminal; else only a line for each round."""
    if not sys.stderr.isatty():
        yield (lambda text: print(text, file=sys.stderr, flush=True)), (lambda: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as bar:
        task = bar.add_task("", total=steps)
        yield (lambda text: bar.console.print(text, markup=False, soft_wrap=True)), (lambda: bar.advance(task))
