"""What `ithaca serve` does, without `typer`: supervisors start servers by the dozen, and a start should be quick."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from ithaca.model.config.cluster import ClusterFile
    from ithaca.model.server_place import ServerPlace
    from ithaca.model.view import Address


class WrongUsage(Exception):
    """What was given says no server; nothing was started."""


class Given(NamedTuple):
    """The options of the command, as they were given."""

    config: Path
    directory: Path | None = None
    orderer: int | None = None
    replica: str | None = None
    aggregator: int | None = None
    spare: str | None = None
    listen: str | None = None
    insecure: bool = False


OPTIONS: Final[dict[str, tuple[str, Any]]] = {
    "--config": ("config", Path),
    "--dir": ("directory", Path),
    "--orderer": ("orderer", int),
    "--replica": ("replica", str),
    "--aggregator": ("aggregator", int),
    "--spare": ("spare", str),
    "--listen": ("listen", str),
}
"""The options with a value: the name that each has in `Given`, and its type."""


def plainly_given(arguments: Sequence[str]) -> Given | None:
    """The options, if they are spelled as a supervisor does, `--name value`; None if not, or if anything is wrong.

    >>> plainly_given(["--config", "c.toml", "--orderer", "1", "--dir", "d"])
    Given(config=PosixPath('c.toml'), directory=PosixPath('d'), orderer=1, ...)
    >>> plainly_given(["--help"])
    """
    given: dict[str, Any] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument == "--insecure":
            given["insecure"] = True
            continue
        name, kind = OPTIONS.get(argument, ("", str))
        value = next(rest, "-")
        if not name or value.startswith("-"):
            return None
        try:
            given[name] = kind(value)
        except ValueError:
            return None
    return Given(**given) if "config" in given else None


def serve(given: Given) -> int:
    """Run the server until it is asked to stop; returns the exit status."""
    from ithaca.model.addresses import parse_address
    from ithaca.model.config.cluster import load_cluster

    if sum(each is not None for each in (given.orderer, given.replica, given.aggregator, given.spare)) != 1:
        raise WrongUsage(
            "give one of --orderer, --replica, --aggregator and --spare: which server of the cluster this is"
        )
    if given.directory is None and given.aggregator is None:
        raise WrongUsage("give --dir: where this server keeps its data")
    file = load_cluster(given.config)
    place = _spare(file, given.spare) if given.spare is not None else _find(file, given)
    listen_at = place.address if given.listen is None else parse_address(given.listen)
    file = replace(file, insecure=True) if given.insecure else file
    _refuse_exposed(file, listen_at)
    return _run(file, place, "" if given.directory is None else str(given.directory.absolute()), listen_at)


def _spare(file: "ClusterFile", address: str) -> "ServerPlace":
    from ithaca.model.addresses import parse_address
    from ithaca.model.server_place import ServerPlace

    found = parse_address(address)
    return ServerPlace("spare", file.spares.index(found) + 1 if found in file.spares else 0, found)


def _find(file: "ClusterFile", given: Given) -> "ServerPlace":
    from ithaca.cluster.layout import servers_of
    from ithaca.model.errors import InvalidInput

    role, shard, number = "orderer", None, given.orderer
    if given.aggregator is not None:
        role, number = "aggregator", given.aggregator
    if given.replica is not None:
        found = re.fullmatch(r"([0-9]+)/([0-9]+)", given.replica)
        if found is None:
            raise WrongUsage(f"{given.replica!r} is not of the form SHARD/REPLICA, such as 0/1")
        role, shard, number = "replica", int(found[1]), int(found[2])
    places = servers_of(file)
    for place in places:
        if (place.role, place.shard, place.number) == (role, shard, number):
            return place
    wanted = f"{role} {number}" if given.replica is None else f"replica {given.replica}"
    known = ", ".join(place.name for place in places)
    raise InvalidInput(f"{given.config} has no {wanted}: there are {known}")


def _refuse_exposed(file: "ClusterFile", address: "Address") -> None:
    from ithaca.model.addresses import is_loopback
    from ithaca.model.errors import InvalidInput

    if not (file.is_closed or file.insecure or is_loopback(address)):
        raise InvalidInput(
            f"{address} can be reached from other machines, and whoever reaches it can read and write the log: protect "
            "it with [tls], where mode is required and clients are known, or with [users] beside it; or, if you trust "
            "that network, say insecure = true in [cluster], or --insecure"
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
