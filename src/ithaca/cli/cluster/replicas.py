"""`ithaca shard replicas`: replicas that are listed, added, removed and replaced while the cluster runs."""

from typing import Annotated

import typer

from ithaca.cli.cluster.listing import emit_list
from ithaca.cli.cluster.target import RunningCluster
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import JsonOption, examples
from ithaca.cli.output import emit
from ithaca.cli.progress import status_line

app = typer.Typer(
    no_args_is_help=True,
    help="List, add, remove and replace the replicas of a shard.",
    epilog=examples("ithaca shard replicas list", "ithaca shard replicas replace 0/1"),
)

LIST_EXAMPLES = examples("ithaca shard replicas list", "ithaca shard replicas list 0 --json")
ADD_EXAMPLES = examples(
    "ithaca shard replicas add 0", "ithaca shard replicas add 0 -b 10.0.0.11:7600 --spare 10.0.0.19:7610"
)
REMOVE_EXAMPLES = examples("ithaca shard replicas remove 0/1", "ithaca shard replicas remove 0/1 -b 10.0.0.11:7600")
REPLACE_EXAMPLES = examples(
    "ithaca shard replicas replace 0/1",
    "ithaca shard replicas replace 0/1 -b 10.0.0.11:7600 --spare 10.0.0.19:7610",
)

ReplicaArgument = Annotated[str, typer.Argument(metavar="SHARD/REPLICA", help="The numbers of both, such as 0/1.")]
SpareOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="With --bootstrap: the spare that runs there (ithaca serve --spare)."),
]


@app.command("list", epilog=LIST_EXAMPLES)
@with_groups
def list_replicas(
    *,
    cluster: RunningCluster,
    shard: Annotated[int | None, typer.Argument(min=0, help="Of this shard alone.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the replicas of a cluster, or of one shard."""
    from ithaca.model.errors import NoSuchShard

    with cluster.connected() as log:
        shards = [each for each in log.admin.shards() if shard in (None, each.shard)]
    if not shards and shard is not None:
        raise NoSuchShard(f"there is no shard {shard}")
    rows: list[dict[str, object]] = [
        {
            "replica": f"{each.shard}/{replica.replica}",
            "address": replica.address,
            "phase": each.phase,
            "lane": replica.lane,
            "open": replica.is_open,
            "ordered": replica.ordered,
        }
        for each in shards
        for replica in each.replicas
    ]
    emit_list(rows, ("replica", "address", "shard is", "lane", "", "ordered"), _row, as_json=as_json)


def _row(replica: dict[str, object]) -> tuple[object, ...]:
    is_open = "open" if replica["open"] else "closed"
    lane = replica["lane"] or "none"
    return replica["replica"], replica["address"], replica["phase"], lane, is_open, replica["ordered"]


@app.command(epilog=ADD_EXAMPLES)
@with_groups
def add(
    *,
    cluster: RunningCluster,
    shard: Annotated[int, typer.Argument(min=0, help="The shard's number.")],
    spare: SpareOption = None,
) -> None:
    """Add a replica to a shard that is short of one, or to a finalized one for more reads.

    In a cluster of this machine its server is started, unless a spare waits. It
    copies everything before it counts.
    """
    remote = cluster.remote
    address = _checked(remote, spare)
    if address is None:
        from ithaca.cluster.replicas import add_local_replica

        with status_line() as progress:
            number = add_local_replica(cluster.home, shard, progress, cluster.patience_s)
    else:
        with cluster.connected() as log:
            number = log.admin.add_replica(shard, address)
    emit(f"replica {shard}/{number} was added\n".encode())


@app.command(epilog=REMOVE_EXAMPLES)
@with_groups
def remove(
    *,
    cluster: RunningCluster,
    replica: ReplicaArgument,
    force: Annotated[bool, typer.Option("--force", help="Even if the others may lack something.")] = False,
) -> None:
    """Remove a replica from its shard; without masking that orders nothing until another was added.

    In a cluster of this machine its server is stopped for good, and its
    directory is left.
    """
    shard, number = _numbers(replica)
    if cluster.remote is None:
        from ithaca.cluster.replicas import remove_local_replica

        remove_local_replica(cluster.home, shard, number, force=force, timeout_s=cluster.patience_s)
    else:
        with cluster.connected() as log:
            log.admin.remove_replica(shard, number, force=force)
    emit(f"replica {shard}/{number} was removed\n".encode())


@app.command(epilog=REPLACE_EXAMPLES)
@with_groups
def replace(
    *,
    cluster: RunningCluster,
    replica: ReplicaArgument,
    spare: SpareOption = None,
) -> None:
    """Put a new replica into the place of another, dead or alive.

    The new one copies the shard first, for as long as the old one is there.
    """
    shard, number = _numbers(replica)
    address = _checked(cluster.remote, spare)
    if address is None:
        from ithaca.cluster.replicas import replace_local_replica

        with status_line() as progress:
            new = replace_local_replica(cluster.home, shard, number, progress, cluster.patience_s)
    else:
        with cluster.connected() as log:
            new = log.admin.replace_replica(shard, number, address)
    emit(f"replica {shard}/{new} has taken the place of {shard}/{number}\n".encode())


def _checked(remote: str | None, spare: str | None) -> str | None:
    """The spare of a cluster elsewhere; None for a cluster of this machine, which finds one itself."""
    if remote is None and spare is not None:
        raise typer.BadParameter("--spare is for a cluster elsewhere: name it with --bootstrap")
    if remote is not None and spare is None:
        raise typer.BadParameter("name the spare with --spare HOST:PORT; it must run already (ithaca serve --spare)")
    return spare


def _numbers(replica: str) -> tuple[int, int]:
    shard, slash, number = replica.partition("/")
    if not slash or not shard.isdecimal() or not number.isdecimal():
        raise typer.BadParameter(f"{replica!r} is not of the form SHARD/REPLICA, such as 0/1")
    return int(shard), int(number)
