"""`ithaca shard missing` and `ithaca shard lost`: records that are ordered, and that no replica has any more."""

from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.cluster.listing import emit_list
from ithaca.cli.cluster.target import RunningCluster
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import JsonOption, examples
from ithaca.cli.output import emit

if TYPE_CHECKING:
    from ithaca.model.interface import MissingInfo

MISSING_EXAMPLES = examples("ithaca shard missing", "ithaca shard missing -b 10.0.0.11:7600 --json")
LOST_EXAMPLES = examples(
    "ithaca shard lost 0-1-3 40 100",
    "ithaca shard lost 0-1-3 40 100 -b 10.0.0.11:7600 --without 1",
)


def add_commands(app: typer.Typer) -> None:
    """Give `ithaca shard` these two."""
    app.command("missing", epilog=MISSING_EXAMPLES)(list_missing)
    app.command("lost", epilog=LOST_EXAMPLES)(declare)


@with_groups
def list_missing(
    *,
    cluster: RunningCluster,
    as_json: JsonOption = False,
) -> None:
    """List records that are ordered, and that no replica has which answers.

    Readers wait for them. If no disk and no backup has them any more, say so
    with ithaca shard lost.
    """
    with cluster.connected() as log:
        listed = log.admin.missing()
    emit_list(listed, ("lane", "from LSN", "up to", "silent"), _row, as_json=as_json)


def _row(missing: "MissingInfo") -> tuple[object, ...]:
    shard = missing.lane.partition("-")[0]
    silent = ", ".join(f"{shard}/{replica}" for replica in missing.silent) or "none of its replicas"
    return missing.lane, missing.start, missing.stop, silent


@with_groups
def declare(
    *,
    cluster: RunningCluster,
    lane: Annotated[str, typer.Argument(help="The lane, as ithaca shard missing lists it, such as 0-1-3.")],
    start: Annotated[int, typer.Argument(min=0, help="The first LSN that is lost.")],
    stop: Annotated[int, typer.Argument(min=1, help="The LSN behind the last one.")],
    without: Annotated[
        list[int] | None,
        typer.Option(metavar="REPLICA", help="The number of a replica that is gone for good; once for each."),
    ] = None,
) -> None:
    """Declare ordered records of a lane lost, because no replica has them any more.

    Readers are told so in their places, and everything else goes on. It cannot be
    taken back. Refused for what a replica of the shard holds; all of them are
    asked, so start those that do not answer, or name them with --without.
    """
    with cluster.connected() as log:
        log.admin.declare_lost(lane, start, stop, without=without or ())
    emit(f"LSNs {start} to {stop - 1} of lane {lane} are declared lost\n".encode())
