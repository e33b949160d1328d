"""`ithaca serve`: one server of a cluster, for clusters of many machines and for the supervisor of one."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.options import examples

if TYPE_CHECKING:
    from ithaca.model.config.cluster import ClusterFile
    from ithaca.model.server_place import ServerPlace
    from ithaca.model.view import Address

SERVE_EXAMPLES = examples(
    "ithaca serve --config cluster.toml --orderer 1 --dir /var/lib/ithaca/orderer-1",
    "ithaca serve --config cluster.toml --replica 0/1 --dir /var/lib/ithaca/shard-0-replica-1 --insecure",
    "ithaca serve --config cluster.toml --aggregator 1",
    "ithaca serve --config cluster.toml --spare 10.0.0.19:7610 --dir /var/lib/ithaca/spare --insecure",
)


def serve(
    config: Annotated[
        Path, typer.Option(metavar="FILE", help="The cluster's file; the same for every server of the cluster.")
    ],
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Where this server keeps its data; an aggregator keeps none."),
    ] = None,
    orderer: Annotated[int | None, typer.Option(metavar="SERVER", help="Be this orderer.")] = None,
    replica: Annotated[str | None, typer.Option(metavar="SHARD/REPLICA", help="Be this replica.")] = None,
    aggregator: Annotated[int | None, typer.Option(metavar="NUMBER", help="Be this aggregator.")] = None,
    spare: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Wait at this address to become a replica, and be that from then on."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Listen here, if others reach the file's address by way of a proxy or a mapped port.",
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen where other machines can reach it; trust them all.")
    ] = False,
) -> None:
    """Run one server of a cluster until SIGTERM or Ctrl-C.

    Its log goes to standard error, a JSON object per line. Exit status: 0
    stopped, 3 fenced (a sync failed: do not start it again on this disk),
    1 anything else.
    """
    if sum(each is not None for each in (orderer, replica, aggregator, spare)) != 1:
        raise typer.BadParameter(
            "give one of --orderer, --replica, --aggregator and --spare: which server of the cluster this is"
        )
    if directory is None and aggregator is None:
        raise typer.BadParameter("give --dir: where this server keeps its data")
    from ithaca.model.addresses import parse_address
    from ithaca.model.config.cluster import load_cluster

    file = load_cluster(config)
    place = _spare(file, spare) if spare is not None else _find(file, config, orderer, replica, aggregator)
    listen_at = place.address if listen is None else parse_address(listen)
    if not insecure:
        _refuse_exposed(listen_at)
    raise typer.Exit(_run(file, place, "" if directory is None else str(directory.absolute()), listen_at))


def _spare(file: "ClusterFile", address: str) -> "ServerPlace":
    from ithaca.model.addresses import parse_address
    from ithaca.model.server_place import ServerPlace

    found = parse_address(address)
    number = file.spares.index(found) + 1 if found in file.spares else 0
    return ServerPlace("spare", number, found)


def _find(
    file: "ClusterFile", config: Path, orderer: int | None, replica: str | None, aggregator: int | None
) -> "ServerPlace":
    from ithaca.cluster.layout import servers_of
    from ithaca.model.errors import InvalidInput

    role, shard, number = "orderer", None, orderer
    if aggregator is not None:
        role, number = "aggregator", aggregator
    if replica is not None:
        found = re.fullmatch(r"([0-9]+)/([0-9]+)", replica)
        if found is None:
            raise typer.BadParameter(f"{replica!r} is not of the form SHARD/REPLICA, such as 0/1")
        role, shard, number = "replica", int(found[1]), int(found[2])
    places = servers_of(file)
    for place in places:
        if (place.role, place.shard, place.number) == (role, shard, number):
            return place
    wanted = f"{role} {number}" if replica is None else f"replica {replica}"
    known = ", ".join(place.name for place in places)
    raise InvalidInput(f"{config} has no {wanted}: there are {known}")


def _refuse_exposed(address: "Address") -> None:
    from ithaca.model.addresses import is_loopback
    from ithaca.model.errors import InvalidInput

    if not is_loopback(address):
        raise InvalidInput(
            f"{address} can be reached from other machines, and whoever reaches it can read and write the log: "
            "if you trust that network, say --insecure"
        )


def _run(file: "ClusterFile", place: "ServerPlace", directory: str, listen_at: "Address") -> int:
    from ithaca.engines.registry import make_server
    from ithaca.server.options import ServerOptions
    from ithaca.server.process import run_server

    names = {"replica": f"{place.shard}/{place.number}", "spare": str(place.address)}
    role = "replica" if place.role == "spare" else place.role
    return run_server(
        lambda: make_server(file, place, directory, ServerOptions(listen_at=listen_at)),
        role,
        names.get(place.role, str(place.number)),
    )
