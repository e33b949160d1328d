"""`ithaca certs`: a small authority, for clusters whose people have none."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.options import JsonOption, examples
from ithaca.cli.output import emit, emit_json

if TYPE_CHECKING:
    from ithaca.cluster.certs.authority import Authority

app = typer.Typer(
    no_args_is_help=True,
    help="Make an authority, and certificates for servers and users of a cluster.",
    epilog=examples(
        "ithaca certs init --cluster bank",
        "ithaca certs issue --config cluster.toml",
        "ithaca certs issue --cluster bank --server orderer-1 --host 10.0.0.11 --host log-1.bank.example",
        "ithaca certs issue --cluster bank --user alice",
        "ithaca certs show tls/orderer-1.pem",
    ),
)

INIT_EXAMPLES = examples("ithaca certs init --cluster bank", "ithaca certs init --dir ./authority --cluster bank")
ISSUE_EXAMPLES = examples(
    "ithaca certs issue --config cluster.toml",
    "ithaca certs issue --cluster bank --server orderer-1 --host 10.0.0.11",
    "ithaca certs issue --cluster bank --user alice --days 90",
)
SHOW_EXAMPLES = examples("ithaca certs show tls/orderer-1.pem", "ithaca certs show tls/ca.pem --json")

DirectoryOption = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where the authority is.")]
ClusterOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="The cluster's name, as [cluster] name says it in its file.")
]
DaysOption = Annotated[
    int | None, typer.Option(min=1, max=36_500, metavar="DAYS", help="For how long it is valid.", show_default=False)
]


@app.command(epilog=INIT_EXAMPLES)
def init(
    cluster: Annotated[str, typer.Option(metavar="NAME", help="The cluster's name, for people who look at it.")],
    directory: DirectoryOption = Path("tls"),
    days: DaysOption = None,
) -> None:
    """Make an authority: ca.pem, which everybody may have, and ca.key.

    Whoever has ca.key can be any server and any user: keep it off the
    servers. An authority is valid for 3650 days unless you say otherwise.
    """
    from ithaca.cluster.certs.authority import AUTHORITY_DAYS, Authority

    Authority.make(directory, cluster, days or AUTHORITY_DAYS)
    emit(f"made {directory / 'ca.pem'} and {directory / 'ca.key'}: keep the key to yourself\n".encode())


@app.command(epilog=ISSUE_EXAMPLES)
def issue(
    directory: DirectoryOption = Path("tls"),
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The cluster's file: a certificate for each of its servers.")
    ] = None,
    cluster: ClusterOption = None,
    server: Annotated[
        str | None, typer.Option(metavar="NAME", help="A server: orderer-1, shard-0-replica-1, spare-1, ...")
    ] = None,
    host: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="An address or a name by which the server is dialled.")
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="A user.")] = None,
    days: DaysOption = None,
) -> None:
    """Issue certificates with new keys, in the authority's directory.

    Those that are there are replaced. Servers and clients notice new files
    by themselves. A certificate is valid for 365 days unless you say
    otherwise.
    """
    from ithaca.cluster.certs.authority import DAYS, Authority

    if sum(each is not None for each in (config, server, user)) != 1:
        raise typer.BadParameter("give one of --config, --server and --user: whose certificate it is")
    authority, days = Authority(directory), days or DAYS
    if config is not None:
        _issue_all(authority, config, days)
        return
    if cluster is None:
        raise typer.BadParameter("give --cluster: the name that the cluster's file says")
    if user is not None:
        if host:
            raise typer.BadParameter("a user has no --host")
        issued = authority.issue_user(cluster, user, days)
    else:
        assert server is not None
        if not host:
            raise typer.BadParameter("give --host: by which address or name the server is dialled")
        issued = authority.issue_server(cluster, server, host, days)
    emit(f"made {issued.certificate} and {issued.key}\n".encode())


def _issue_all(authority: "Authority", config: Path, days: int) -> None:
    from ithaca.cluster.layout import servers_of, spares_of
    from ithaca.model.config.cluster import load_cluster

    file = load_cluster(config)
    for place in servers_of(file) + spares_of(file):
        issued = authority.issue_server(file.name, place.name, [place.address.host], days)
        emit(f"made {issued.certificate} and {issued.key}\n".encode())


@app.command(epilog=SHOW_EXAMPLES)
def show(
    file: Annotated[Path, typer.Argument(help="A certificate in PEM format.")], as_json: JsonOption = False
) -> None:
    """Say what a certificate says: who it is, where, by whom, and until when."""
    from ithaca.cluster.certs.authority import show as shown

    found = shown(file)
    who = "an authority" if found.is_authority else "nobody" if found.identity is None else str(found.identity)
    report = {
        "subject": found.subject,
        "issuer": found.issuer,
        "is": who,
        "uri": None if found.identity is None else found.identity.uri,
        "hosts": list(found.hosts),
        "from": found.begins.isoformat(),
        "until": found.ends.isoformat(),
    }
    if as_json:
        emit_json(report)
        return
    lines = [f"{name:<8} {', '.join(value) if isinstance(value, list) else value}" for name, value in report.items()]
    emit("".join(f"{line}\n" for line in lines).encode())
