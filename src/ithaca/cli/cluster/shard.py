"""`ithaca shard`: shards that are added, finalized and listed while the cluster runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.cluster import losses, replicas
from ithaca.cli.cluster.listing import add_list_command
from ithaca.cli.cluster.target import RunningCluster
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import examples, parse_duration
from ithaca.cli.output import emit
from ithaca.cli.progress import status_line

if TYPE_CHECKING:
    from ithaca.model.interface import ShardInfo
    from ithaca.model.view import Address

ADD_EXAMPLES = examples(
    "ithaca shard add",
    "ithaca shard add --dir ./small --replicas 3 --masking",
    "ithaca shard add -b 10.0.0.11:7600 --replica 10.0.0.14:7610 --replica 10.0.0.15:7610",
)
FINALIZE_EXAMPLES = examples("ithaca shard finalize 0", "ithaca shard finalize 1 --grace-cuts 100 --grace 5")
LIST_EXAMPLES = examples("ithaca shard list", "ithaca shard list -b 10.0.0.11:7600 --json")


app = typer.Typer(
    no_args_is_help=True,
    help="Add, finalize and list the shards of a cluster that runs, and say what of them is lost.",
    epilog=examples("ithaca shard list", "ithaca shard add", "ithaca shard finalize 0", "ithaca shard replicas list"),
)
app.add_typer(replicas.app, name="replicas")
losses.add_commands(app)


@app.command(epilog=ADD_EXAMPLES)
@with_groups
def add(
    *,
    cluster: RunningCluster,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=15, show_default="as the last shard", help="Replicas of the new shard.")
    ] = None,
    masking: Annotated[
        bool, typer.Option("--masking", help="A majority of 3, 5, ... replicas is enough to order.")
    ] = False,
    replica: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="With --bootstrap: a replica that runs there; once for each."),
    ] = None,
) -> None:
    """Add a shard to a cluster that runs.

    To the one in the directory: its servers are started and written into
    cluster.toml. With --bootstrap: the replicas run already, started by ithaca
    serve, and say themselves which shard they are.
    """
    remote = cluster.remote
    if remote is None:
        from ithaca.cluster.shards import add_local_shard

        if replica:
            raise typer.BadParameter("--replica is for a cluster elsewhere: name it with --bootstrap")
        with status_line() as progress:
            number = add_local_shard(
                cluster.home, replicas, masking=masking, progress=progress, timeout_s=cluster.patience_s
            )
    else:
        if not replica or replicas is not None:
            raise typer.BadParameter("name the replicas, each with --replica HOST:PORT; they must run already")
        number, addresses = _asked(replica)
        with cluster.connected() as log:
            number = log.admin.add_shard([str(address) for address in addresses], masking=masking, shard=number)
    emit(f"shard {number} was added\n".encode())


@app.command(epilog=FINALIZE_EXAMPLES)
@with_groups
def finalize(
    *,
    cluster: RunningCluster,
    shard: Annotated[int, typer.Argument(min=0, help="The shard's number.")],
    grace_cuts: Annotated[int, typer.Option(min=0, help="So many cuts still count for it.")] = 0,
    grace: Annotated[
        float, typer.Option(parser=parse_duration, metavar="DURATION", help="And it stays so long at least.")
    ] = 0,
    force: Annotated[bool, typer.Option("--force", help="Even if no other shard takes appends.")] = False,
) -> None:
    """Let a shard take nothing more: at once, or after a grace in which clients go elsewhere.

    What it holds stays readable; its replicas must go on running until all of it
    is trimmed.
    """
    with cluster.connected() as log:
        log.admin.finalize_shard(shard, grace_cuts=grace_cuts, grace=grace, force=force)
    emit(f"shard {shard} is finalized\n".encode())


def _row(shard: "ShardInfo") -> tuple[object, ...]:
    lost = f"{shard.f} of {len(shard.replicas)}" + (" (masking)" if shard.masking else "")
    places = ", ".join(f"{each.address} ({each.lane or 'no lane'})" for each in shard.replicas)
    return shard.shard, shard.phase, lost, shard.records, places


add_list_command(
    app,
    lambda admin: admin.shards(),
    ("shard", "phase", "may lose", "records", "replicas"),
    _row,
    help="List the shards of a cluster, finalized ones included.",
    epilog=LIST_EXAMPLES,
)


def _asked(replicas: list[str]) -> "tuple[int, list[Address]]":
    """The shard that the replicas say they are of, and their addresses by their numbers."""
    import asyncio

    from ithaca.client.asking import ask_status
    from ithaca.model.addresses import parse_address
    from ithaca.model.errors import InvalidInput
    from ithaca.model.security.tls import tls_from_environment

    tls = tls_from_environment()

    async def ask() -> "list[tuple[int, int, Address]]":
        found = []
        for address in map(parse_address, replicas):
            said = await ask_status(address, tls)
            if said.get("role") != "replica":
                raise InvalidInput(f"{address} is an {said.get('role')}, not a replica")
            found.append((int(said["shard"]), int(said["replica"]), address))
        return sorted(found, key=lambda each: each[:2])

    found = asyncio.run(ask())
    shards, numbers = {shard for shard, _, _ in found}, [number for _, number, _ in found]
    if len(shards) != 1 or numbers != list(range(len(found))):
        names = ", ".join(f"{shard}/{number} at {address}" for shard, number, address in found)
        raise InvalidInput(f"these are not all replicas of one new shard: {names}")
    return found[0][0], [address for _, _, address in found]
