"""`ithaca user`: who may use a cluster, and what each of them may do."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.cluster.listing import add_list_command
from ithaca.cli.cluster.target import RunningCluster
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import JsonOption, examples, parse_size
from ithaca.cli.output import emit, emit_json

if TYPE_CHECKING:
    from ithaca.model.interface import UserInfo
    from ithaca.model.security.users import UserLimits

app = typer.Typer(
    no_args_is_help=True,
    help="Add, change, revoke and list the users of a cluster that runs, and what each of them may do.",
    epilog=examples("ithaca user add alice read append", "ithaca user grant alice append:orders/", "ithaca user list"),
)

ADD_EXAMPLES = examples(
    "ithaca user add alice read append --token-file alice.token",
    "ithaca user add etl read:orders/ append:orders/ --bytes-per-s 10M",
    "ithaca user add bob read --certificate",
)
ROTATE_EXAMPLES = examples(
    "ithaca user rotate alice --token-file alice.new",
    "ithaca user rotate alice --drop   (the old one is known to others)",
)
REVOKE_EXAMPLES = examples("ithaca user revoke alice", "ithaca user revoke alice trim append:orders/")
GRANT_EXAMPLES = examples("ithaca user grant alice trim", "ithaca user grant alice read:orders/ -b 10.0.0.11:7600")
LIMIT_EXAMPLES = examples("ithaca user limit alice --requests-per-s 1000 --connections 16", "ithaca user limit alice")
LIST_EXAMPLES = examples("ithaca user list", "ithaca user list -b 10.0.0.11:7600 --json")

NameArgument = Annotated[str, typer.Argument(help="The user's name.")]
RightsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RIGHT]...", help="read, append, trim, admin; read:PREFIX or append:PREFIX for some keys."),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(show_default=False, help="Write the token there, into a new file of mode 0600, and do not show it."),
]


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """What the user may use of each server; 0 is no limit."""

    connections: Annotated[int, typer.Option(min=0, help="Connections to each server.")] = 0
    requests_per_s: Annotated[int, typer.Option(min=0, help="Requests to each server in a second.")] = 0
    bytes_per_s: Annotated[
        int | None,
        typer.Option(
            parser=parse_size, metavar="SIZE", show_default="0", help="Bytes to and from each server in a second."
        ),
    ] = None
    inflight_bytes: Annotated[
        int | None,
        typer.Option(
            parser=parse_size, metavar="SIZE", show_default="0", help="Bytes that a server has not answered yet."
        ),
    ] = None
    sessions: Annotated[int, typer.Option(min=0, help="Sessions, those without names included.")] = 0
    parts: Annotated[int, typer.Option(min=0, help="Prepared parts that are not published.")] = 0

    def limits(self) -> "UserLimits":
        from ithaca.model.security.users import UserLimits

        return UserLimits(
            self.connections,
            self.requests_per_s,
            self.bytes_per_s or 0,
            self.inflight_bytes or 0,
            self.sessions,
            self.parts,
        )


@app.command(epilog=ADD_EXAMPLES)
@with_groups
def add(
    *,
    cluster: RunningCluster,
    name: NameArgument,
    rights: RightsArgument = None,
    certificate: Annotated[
        bool, typer.Option("--certificate", help="It has no token, and is known by its certificate.")
    ] = False,
    token_file: TokenFileOption = None,
    options: LimitOptions,
    json: JsonOption = False,
) -> None:
    """Add a user, and show its token, which is kept nowhere: whoever has it is that user."""
    _refuse_existing(token_file)
    with cluster.connected() as log:
        token = log.admin.add_user(name, rights or (), limits=options.limits(), certificate=certificate)
    _tell_token(name, token, token_file, json)


@app.command(epilog=ROTATE_EXAMPLES)
@with_groups
def rotate(
    *,
    cluster: RunningCluster,
    name: NameArgument,
    drop: Annotated[bool, typer.Option("--drop", help="The tokens before this one are not valid any more.")] = False,
    token_file: TokenFileOption = None,
    json: JsonOption = False,
) -> None:
    """Give a user another token. The one before it stays valid, so that programs can change to the new one."""
    _refuse_existing(token_file)
    with cluster.connected() as log:
        token = log.admin.rotate_token(name, keep=not drop)
    _tell_token(name, token, token_file, json)


@app.command(epilog=REVOKE_EXAMPLES)
@with_groups
def revoke(*, cluster: RunningCluster, name: NameArgument, rights: RightsArgument = None) -> None:
    """Take rights from a user; without rights, the user is none any more. Within a second it is so everywhere."""
    with cluster.connected() as log:
        if rights:
            log.admin.withdraw(name, rights)
        else:
            log.admin.revoke_user(name)
    emit(f"user {name} {'may do less' if rights else 'was revoked'}\n".encode())


@app.command(epilog=GRANT_EXAMPLES)
@with_groups
def grant(
    *,
    cluster: RunningCluster,
    name: NameArgument,
    rights: Annotated[list[str], typer.Argument(metavar="RIGHT...", help="As in ithaca user add.")],
) -> None:
    """Give a user more rights."""
    with cluster.connected() as log:
        log.admin.grant(name, rights)
    emit(f"user {name} may do more\n".encode())


@app.command(epilog=LIMIT_EXAMPLES)
@with_groups
def limit(*, cluster: RunningCluster, name: NameArgument, options: LimitOptions) -> None:
    """Set all limits of a user: those that are not named are none any more."""
    with cluster.connected() as log:
        log.admin.limit_user(name, options.limits())
    emit(f"user {name} has these limits now\n".encode())


def _row(user: "UserInfo") -> tuple[object, ...]:
    from msgspec.structs import asdict

    limits = {name: value for name, value in asdict(user.limits).items() if value}
    shown = " ".join(f"{name}={value}" for name, value in limits.items())
    return user.name, " ".join(user.rights) or "none", f"{user.tokens} tokens" if user.tokens else "certificate", shown


add_list_command(
    app,
    lambda admin: admin.users(),
    ("user", "rights", "known by", "limits"),
    _row,
    help="""List the users of a cluster.

The operator, who may do everything, is always there and not listed.""",
    epilog=LIST_EXAMPLES,
)


def _refuse_existing(path: Path | None) -> None:
    if path is not None and path.exists():
        raise typer.BadParameter(f"{path} is there already: name a new file")


def _tell_token(name: str, token: str, path: Path | None, as_json: bool) -> None:
    """Say the token, or where it is."""
    from ithaca.model.security.token import write_token

    said = {"user": name}
    if path is not None and token:
        write_token(path, token)
        said["token_file"] = str(path)
    elif token:
        said["token"] = token
    if as_json:
        emit_json(said)
    else:
        shown = said.get("token") or (f"its token is in {path}" if token else "it is known by its certificate")
        emit(f"user {name}: {shown}\n".encode())
