"""`ithaca orderer`: ordering servers that are added, removed, replaced and listed while the cluster runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.cluster.listing import add_list_command
from ithaca.cli.cluster.target import RunningCluster
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import examples
from ithaca.cli.output import emit
from ithaca.cli.progress import status_line

if TYPE_CHECKING:
    from ithaca.model.interface import OrdererInfo

app = typer.Typer(
    no_args_is_help=True,
    help="Add, remove, replace and list the orderers of a cluster that runs; of the engine raft they are all servers.",
    epilog=examples("ithaca orderer list", "ithaca orderer add", "ithaca orderer replace 2"),
)

ADD_EXAMPLES = examples("ithaca orderer add", "ithaca orderer add -b 10.0.0.11:7600 10.0.0.14:7600")
REMOVE_EXAMPLES = examples("ithaca orderer remove 2", "ithaca orderer remove 2 -b 10.0.0.11:7600")
REPLACE_EXAMPLES = examples("ithaca orderer replace 2", "ithaca orderer replace 2 10.0.0.14:7600 -b 10.0.0.11:7600")
LIST_EXAMPLES = examples("ithaca orderer list", "ithaca orderer list -b 10.0.0.11:7600 --json")

WhereOption = Annotated[
    str | None,
    typer.Argument(metavar="[HOST:PORT]", show_default=False, help="With --bootstrap: where the new orderer waits."),
]


@app.command(epilog=ADD_EXAMPLES)
@with_groups
def add(
    *,
    cluster: RunningCluster,
    address: WhereOption = None,
) -> None:
    """Add an orderer to a cluster that runs. Add two: an even number survives no more.

    To the one in the directory: it is started and written into cluster.toml.
    With --bootstrap: it runs already, started by ithaca serve with joining = true
    and an empty directory, and waits at the address.
    """
    where = _checked(cluster.remote, address)
    if where is None:
        from ithaca.cluster.orderers import add_local_orderer

        with status_line() as progress:
            number = add_local_orderer(cluster.home, progress, cluster.patience_s)
    else:
        with cluster.connected() as log:
            number = log.admin.add_orderer(where)
    emit(f"orderer {number} was added\n".encode())


@app.command(epilog=REMOVE_EXAMPLES)
@with_groups
def remove(
    *,
    cluster: RunningCluster,
    orderer: Annotated[int, typer.Argument(min=1, help="The orderer's number.")],
) -> None:
    """Remove an orderer for good, be it up, down or lost; if it leads, it hands over first.

    Of the cluster in the directory its process ends, and it is taken out of
    cluster.toml; its data stays. Its number is never used again.
    """
    remote = cluster.remote
    if remote is None:
        from ithaca.cluster.orderers import remove_local_orderer

        remove_local_orderer(cluster.home, orderer, cluster.patience_s)
    else:
        with cluster.connected() as log:
            log.admin.remove_orderer(orderer)
    emit(f"orderer {orderer} was removed\n".encode())


@app.command(epilog=REPLACE_EXAMPLES)
@with_groups
def replace(
    *,
    cluster: RunningCluster,
    orderer: Annotated[int, typer.Argument(min=1, help="The number of the one that goes.")],
    address: WhereOption = None,
) -> None:
    """Put a new orderer into the place of another, be it up, down, lost or damaged.

    The new one gets everything and votes before the old one goes. Of the cluster
    in the directory it is started, and the old one's process ends; its data stays.
    """
    where = _checked(cluster.remote, address)
    if where is None:
        from ithaca.cluster.orderers import replace_local_orderer

        with status_line() as progress:
            number = replace_local_orderer(cluster.home, orderer, progress, cluster.patience_s)
    else:
        with cluster.connected() as log:
            number = log.admin.add_orderer(where)
            log.admin.remove_orderer(orderer)
    emit(f"orderer {number} has taken the place of {orderer}\n".encode())


def _checked(remote: str | None, address: str | None) -> str | None:
    """Where the new orderer of a cluster elsewhere waits; None for a cluster of this machine, which starts it."""
    if remote is None and address is not None:
        raise typer.BadParameter("an address is for a cluster elsewhere: name it with --bootstrap")
    if remote is not None and address is None:
        raise typer.BadParameter("name the address at which the new orderer waits")
    return address


def _row(orderer: "OrdererInfo") -> tuple[object, ...]:
    role = "leader" if orderer.leads else "follower" if orderer.votes else "learner"
    return orderer.orderer, orderer.address, role


add_list_command(
    app,
    lambda admin: admin.orderers(),
    ("orderer", "address", "role"),
    _row,
    help="List the orderers of a cluster, those included that do not vote yet.",
    epilog=LIST_EXAMPLES,
)
