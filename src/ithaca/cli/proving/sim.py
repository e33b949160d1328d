"""`ithaca sim`: seeds that send a simulated cluster through bad days."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.options import EngineOption, JsonOption, examples
from ithaca.cli.output import emit, emit_json
from ithaca.model.engine import DEFAULT_ENGINE, EngineName

if TYPE_CHECKING:
    from ithaca.sim.run import Result

SIM_EXAMPLES = examples("ithaca sim --seed 7", "ithaca sim --seeds 1..200", "ithaca sim --seed 7 --story")

_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def sim(
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Run this seed, the same way every time.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="A..B", help="Run these seeds, both included, on all cores.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, metavar="N", help="So many at once instead.")] = None,
    engine: EngineOption = DEFAULT_ENGINE,
    story: Annotated[bool, typer.Option("--story", help="Print what happened also when all went well.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run whole clusters in one process, on simulated networks, disks and clocks, under faults.

    The servers and clients are the real ones. A seed draws a cluster, a load and faults; after a while everything is
    mended, must come back by itself, and the history is judged. The same seed gives the same run, down to the hash of
    its trace. Exit status 0 when nothing was violated, 1 otherwise. docs/proof.md says what is checked.
    """
    wanted = _wanted(seed, seeds)
    if not wanted:
        raise typer.BadParameter("say which: --seed N or --seeds A..B")
    from ithaca.model.errors import ConfigError
    from ithaca.sim.campaign import Coverage, run_seeds

    try:
        coverage = Coverage(engine)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    failures = 0
    with _progress(len(wanted)) as advance:
        for result in run_seeds(wanted, 1 if len(wanted) == 1 else workers, engine=engine, story=story):
            coverage.add(result)
            failures += result.violation is not None
            advance()
            if as_json:
                emit_json(_fields(result))
            elif result.violation is not None or len(wanted) == 1:
                emit(_text(result, engine).encode())
    if len(wanted) > 1 and not as_json:
        for name, count in coverage.rows():
            emit(f"{count:>10}  {name}\n".encode())
        emit(f"{len(wanted)} seeds, {failures} violated\n".encode())
    if failures:
        raise typer.Exit(1)


def _wanted(seed: int | None, seeds: str | None) -> range:
    if seed is not None and seeds is not None:
        raise typer.BadParameter("--seed and --seeds exclude each other; give one of them")
    if seed is not None:
        return range(seed, seed + 1)
    if seeds is None:
        return range(0)
    found = _RANGE.fullmatch(seeds)
    if found is None or int(found[1]) > int(found[2]):
        raise typer.BadParameter(f"{seeds!r} is no range of seeds: write it as 1..200")
    return range(int(found[1]), int(found[2]) + 1)


def _fields(result: "Result") -> dict[str, object]:
    import msgspec

    fields: dict[str, object] = msgspec.to_builtins(result)
    return fields


def _text(result: "Result", engine: EngineName) -> str:
    said = (
        f"seed {result.seed}: {result.violation or 'nothing violated'}\n"
        f"  trace {result.trace}, {result.events} events, {result.virtual_s:.1f} s, "
        f"{result.acknowledged} records acknowledged\n"
    )
    if result.report:
        said += f"{result.report}\n  again with: ithaca sim --engine {engine} --seed {result.seed}\n"
    return said


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], object]]:
    """A bar of seeds, on a terminal only."""
    if total < 2 or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)
