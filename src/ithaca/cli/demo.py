"""`ithaca demo`: wires the command line to `ithaca.apps`."""

from pathlib import Path
from typing import Annotated

import typer

from ithaca.cli.options import examples

DEMO_EXAMPLES = examples(
    "ithaca demo",
    "ithaca demo --records 50000 --dir ./demo-data --keep",
    "ithaca demo --embedded",
)


def demo(
    records: Annotated[int, typer.Option(min=1000, help="Transactions to append.")] = 800_000,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Where the data goes; else a temporary directory."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the data there afterwards.")] = False,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="The log in a directory, without servers: a killed producer.")
    ] = False,
) -> None:
    """A cluster, producers, followers, a killed replica, its return: with figures, every claim checked.

    Producers append transactions to a cluster on this machine while followers
    read along. A replica is killed and comes back. Nothing acknowledged is
    missing, nothing is doubled, both followers saw the same order, and no
    process is left. A claim that does not hold ends the demo with status 1.
    """
    if embedded:
        from ithaca.apps.demo_embedded import run_embedded_demo as run
    else:
        from ithaca.apps.demo_cluster import run_cluster_demo as run

    if not run(records, directory, keep):
        raise typer.Exit(1)
