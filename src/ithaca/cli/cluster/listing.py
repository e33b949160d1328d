"""Lists of things of a cluster: a plain table for people, a line of JSON each for programs."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from ithaca.cli.cluster.target import RunningCluster
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import JsonOption
from ithaca.cli.output import emit_json

if TYPE_CHECKING:
    from ithaca.model.interface import Admin

Listed = TypeVar("Listed")


def duration(seconds: float | None) -> str:
    """A time for people, roughly.

    >>> duration(42.0), duration(7200.0), duration(1e6), duration(None)
    ('42 s', '2.0 h', '11.6 d', 'not known')
    """
    if seconds is None:
        return "not known"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def emit_list(
    listed: Sequence[Listed], columns: tuple[str, ...], row: Callable[[Listed], tuple[object, ...]], *, as_json: bool
) -> None:
    """Print structs or dictionaries; `row` gives what is in the columns."""
    if as_json:
        import msgspec

        for each in listed:
            fields: dict[str, Any] = msgspec.to_builtins(each)
            emit_json(fields)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False)
    for each in listed:
        table.add_row(*map(str, row(each)))
    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(table)


def add_list_command(
    app: typer.Typer,
    ask: "Callable[[Admin], Sequence[Listed]]",
    columns: tuple[str, ...],
    row: Callable[[Listed], tuple[object, ...]],
    *,
    help: str,
    epilog: str,
) -> None:
    """Give a group of commands its `list`: what `ask` gets of a cluster that runs."""

    @app.command("list", help=help, epilog=epilog)
    @with_groups
    def list_all(
        *,
        cluster: RunningCluster,
        as_json: JsonOption = False,
    ) -> None:
        with cluster.connected() as log:
            listed = ask(log.admin)
        emit_list(listed, columns, row, as_json=as_json)
