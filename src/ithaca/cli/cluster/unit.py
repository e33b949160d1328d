"""`ithaca unit`: storage units that are listed, added, replaced and rebuilt while the cluster runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.cluster.listing import add_list_command
from ithaca.cli.cluster.target import RunningCluster
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import examples
from ithaca.cli.output import emit
from ithaca.cli.progress import status_line

if TYPE_CHECKING:
    from ithaca.model.interface import UnitInfo

app = typer.Typer(
    no_args_is_help=True,
    help="List, add, replace and rebuild the storage units of a cluster of the engine corfu.",
    epilog=examples("ithaca unit list", "ithaca unit add", "ithaca unit replace 3"),
)

ADD_EXAMPLES = examples(
    "ithaca unit add",
    "ithaca unit add --set 2",
    "ithaca unit add -b 10.0.0.11:7600 10.0.0.19:7610 10.0.0.20:7610 --set 2",
)
REPLACE_EXAMPLES = examples("ithaca unit replace 3", "ithaca unit replace 3 10.0.0.19:7610 -b 10.0.0.11:7600")
REBUILD_EXAMPLES = examples("ithaca unit rebuild", "ithaca unit rebuild -b 10.0.0.11:7600")
LIST_EXAMPLES = examples("ithaca unit list", "ithaca unit list -b 10.0.0.11:7600 --json")


@app.command(epilog=ADD_EXAMPLES)
@with_groups
def add(
    *,
    cluster: RunningCluster,
    addresses: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HOST:PORT]...", show_default=False, help="With --bootstrap: where the units wait."),
    ] = None,
    set_of: Annotated[
        int | None,
        typer.Option("--set", min=1, metavar="N", help="Have N units be one more set, for more capacity."),
    ] = None,
) -> None:
    """Add a unit as a spare, or several as one more set that is appended to.

    To the cluster in the directory: they are started and written into cluster.toml.
    With --bootstrap: they run already, started by ithaca serve --spare with empty
    directories, and wait at the addresses. A spare takes the place of a unit that
    is lost.
    """
    where = _checked(cluster.remote, addresses or [], 1 if set_of is None else set_of)
    if where is None:
        from ithaca.cluster.units import start_units

        with status_line() as progress:
            where = start_units(cluster.home, 1 if set_of is None else set_of, progress)
    with cluster.connected() as log:
        if set_of is None:
            said = f"unit {log.admin.add_unit(where[0])} was added as a spare"
        else:
            said = f"set {log.admin.add_units(where)} was added, of {len(where)} units"
    emit(f"{said}\n".encode())


@app.command(epilog=REPLACE_EXAMPLES)
@with_groups
def replace(
    *,
    cluster: RunningCluster,
    unit: Annotated[int, typer.Argument(min=1, help="The number of the one that goes.")],
    address: Annotated[
        str | None,
        typer.Argument(metavar="[HOST:PORT]", show_default=False, help="With --bootstrap: where the new one waits."),
    ] = None,
) -> None:
    """Put another unit into the place of one, be it up or lost; what it has is copied first.

    Without an address a spare takes the place; in the directory one is started if
    there is none.
    """
    from ithaca.model.errors import Unavailable

    if cluster.remote is None and address is not None:
        raise typer.BadParameter("an address is for a cluster elsewhere: name it with --bootstrap")
    with status_line() as progress, cluster.connected() as log:
        progress(f"what unit {unit} has is copied")
        try:
            number = log.admin.replace_unit(unit, address)
        except Unavailable:
            if cluster.remote is not None:
                raise
            from ithaca.cluster.units import start_units

            number = log.admin.replace_unit(unit, start_units(cluster.home, 1, progress)[0])
    emit(f"unit {number} has taken the place of {unit}\n".encode())


@app.command(epilog=REBUILD_EXAMPLES)
@with_groups
def rebuild(*, cluster: RunningCluster) -> None:
    """Wait until every chain has all its units and these have everything, and show how far it is.

    Copying goes on by itself, whoever waits. Fails when a chain is short and there
    is no spare.
    """
    from ithaca.model.errors import DeadlineExceeded

    with status_line() as progress, cluster.connected() as log:
        while True:
            try:
                log.admin.rebuild_units(timeout=1.0)
                break
            except DeadlineExceeded:
                copying = [each for each in log.admin.units() if each.copied is not None]
                progress("; ".join(f"unit {each.unit} copies: {each.copied:.0%}" for each in copying) or "waiting")
    emit(b"every chain has all its units\n")


def _checked(remote: str | None, addresses: list[str], count: int) -> list[str] | None:
    """Where the units of a cluster elsewhere wait; None for a cluster of this machine, which starts them."""
    if remote is None:
        if addresses:
            raise typer.BadParameter("addresses are for a cluster elsewhere: name it with --bootstrap")
        return None
    if len(addresses) != count:
        raise typer.BadParameter(f"name {count} address(es), each of a unit that waits there")
    return addresses


def _row(unit: "UnitInfo") -> tuple[object, ...]:
    place = (
        "spare" if not unit.ranges else "closed ranges" if unit.set is None else f"set {unit.set}, place {unit.place}"
    )
    state = unit.state if unit.copied is None else f"{unit.state}, copies: {unit.copied:.0%}"
    return unit.unit, unit.address, place, unit.ranges, "" if unit.rows is None else unit.rows, state


add_list_command(
    app,
    lambda admin: admin.units(),
    ("unit", "address", "place", "ranges", "rows", "state"),
    _row,
    help="List the units of a cluster, spares included.",
    epilog=LIST_EXAMPLES,
)
