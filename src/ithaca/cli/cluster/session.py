"""`ithaca session`: sessions that have names, which are listed and expired while the cluster runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.cluster.listing import add_list_command, duration
from ithaca.cli.cluster.target import RunningCluster
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import examples
from ithaca.cli.output import emit

if TYPE_CHECKING:
    from ithaca.model.interface import SessionInfo

app = typer.Typer(
    no_args_is_help=True,
    help="List and expire the named sessions of a cluster that runs.",
    epilog=examples("ithaca session list", "ithaca session expire importer"),
)

LIST_EXAMPLES = examples("ithaca session list", "ithaca session list -b 10.0.0.11:7600 --json")
EXPIRE_EXAMPLES = examples("ithaca session expire importer", "ithaca session expire importer -b 10.0.0.11:7600")


def _row(session: "SessionInfo") -> tuple[object, ...]:
    return session.name, f"{session.epoch} times", session.lane, duration(session.idle_s)


add_list_command(
    app,
    lambda admin: admin.sessions(),
    ("session", "opened", "lane", "idle"),
    _row,
    help="""List the sessions that have names, and for how long nobody has used each.

Those of plain appends have none, and are not listed: they go by themselves.""",
    epilog=LIST_EXAMPLES,
)


@app.command(epilog=EXPIRE_EXAMPLES)
@with_groups
def expire(
    *,
    cluster: RunningCluster,
    name: Annotated[str, typer.Argument(help="The session's name.")],
) -> None:
    """Forget a named session, whoever has it open.

    Its records stay. Retries of what it sent are refused from then on, and
    whoever opens the name again begins with number 1.
    """
    with cluster.connected() as log:
        log.admin.expire_session(name)
    emit(f"session {name} has expired\n".encode())
