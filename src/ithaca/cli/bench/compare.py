"""`ithaca bench compare`: wires the command line to the comparison with other systems."""

from pathlib import Path
from typing import Annotated

import typer

from ithaca.cli.bench.options import BENCH_DIRECTORY, DirectoryOption
from ithaca.cli.options import JsonOption, examples
from ithaca.cli.output import emit_json, note
from ithaca.cli.progress import status_line

COMPARE_EXAMPLES = examples(
    "ithaca bench compare",
    "ithaca bench compare --full --rounds 5 --out compare-full",
    "ithaca bench compare --systems ithaca-scalog,kafka --workloads flight-4kb,one-100b",
    "ithaca bench compare --systems list",
)

NamesOption = Annotated[str | None, typer.Option(metavar="NAMES|list", help="Which, with commas between them.")]


def compare(
    directory: DirectoryOption = BENCH_DIRECTORY,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="What is measured is kept here, and the reports; a run goes on from it.")
    ] = Path("compare"),
    systems: NamesOption = None,
    workloads: NamesOption = None,
    is_full: Annotated[
        bool, typer.Option("--full/--quick", help="All workloads, or those that tell most in half an hour.")
    ] = False,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Per measurement.", show_default="1.5, and 2 with --full")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians over them are shown, with their spread.")] = 3,
    warm_up: Annotated[
        float | None,
        typer.Option(
            min=0.1, help="Seconds that each system warms up, not counted.", show_default="1, and 2 with --full"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Ithaca beside Kafka, BookKeeper, NATS, Redis, SQLite and a plain file: same work, same durability, same rounds.

    Peers are fetched where they can be: jars from Maven Central, NATS by Go, Redis where it is installed. One that
    cannot be had is in the report with the reason. Stopped and started again, a run measures what it has not yet: other
    workloads, and systems that could not be had before, beside Ithaca's again.
    """
    from ithaca.bench.compare.catalogue import SYSTEMS, chosen_systems, chosen_workloads
    from ithaca.bench.compare.kept import CompareSettings
    from ithaca.bench.compare.page import page
    from ithaca.bench.compare.run import run_compare
    from ithaca.bench.compare.table import markdown
    from ithaca.bench.compare.workloads import WORKLOADS

    if systems == "list":
        print("\n".join(f"{name:24} {system.acknowledged}" for name, system in SYSTEMS.items()))
        return
    if workloads == "list":
        print("\n".join(f"{each.name:16} {each.title}" for each in WORKLOADS))
        return
    chosen = chosen_systems(systems), chosen_workloads(workloads, quick=not is_full)
    settings = CompareSettings(seconds or (2.0 if is_full else 1.5), rounds, warm_up or (2.0 if is_full else 1.0))
    with status_line() as progress:
        report = run_compare(directory, out, *chosen, settings, progress, note)
    text = markdown(report)
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.md").write_text(text, encoding="utf-8")
    (out / "report.html").write_text(page(report), encoding="utf-8")
    if as_json:
        emit_json(report)
    else:
        print(text)
    note(f"kept in {out}: report.html, report.md and {len(report['workloads'])} workloads")
