"""`ithaca demo`: wires the command line to `ithaca.apps.demo`."""

from pathlib import Path
from typing import Annotated

import typer

from ithaca.cli.options import examples

DEMO_EXAMPLES = examples("ithaca demo", "ithaca demo --records 50000 --dir ./demo-data --keep")


def demo(
    records: Annotated[int, typer.Option(min=1000, help="Transactions to append.")] = 500_000,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Where the log goes; else a temporary directory."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the log there afterwards.")] = False,
) -> None:
    """A producer, two followers, a crash, the recovery: with figures, and every claim checked.

    The producer appends transactions and is killed in the middle. The log is
    opened again, nothing acknowledged is missing, the producer goes on, nothing
    is doubled, and both followers saw the same order. A claim that does not
    hold ends the demo with status 1.
    """
    from ithaca.apps.demo import run_demo

    if not run_demo(records, directory, keep):
        raise typer.Exit(1)
