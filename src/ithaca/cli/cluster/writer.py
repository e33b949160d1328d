"""`ithaca writer`: writers that are remembered with what they published last, listed and forgotten."""

from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.cluster.listing import add_list_command, duration
from ithaca.cli.cluster.target import RunningCluster
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import examples
from ithaca.cli.output import emit

if TYPE_CHECKING:
    from ithaca.model.interface import WriterInfo

app = typer.Typer(
    no_args_is_help=True,
    help="List and forget the writers that have published to a cluster.",
    epilog=examples("ithaca writer list", "ithaca writer forget nightly"),
)

LIST_EXAMPLES = examples("ithaca writer list", "ithaca writer list -b 10.0.0.11:7600 --json")
FORGET_EXAMPLES = examples("ithaca writer forget nightly", "ithaca writer forget nightly -b 10.0.0.11:7600")


def _row(writer: "WriterInfo") -> tuple[object, ...]:
    return writer.writer, writer.key, writer.owner, writer.count, writer.position, duration(writer.idle_s)


add_list_command(
    app,
    lambda admin: admin.writers(),
    ("writer", "number", "owner", "records", "from position", "idle"),
    _row,
    help="List the writers that are remembered, with what each published last and how long ago.",
    epilog=LIST_EXAMPLES,
)


@app.command(epilog=FORGET_EXAMPLES)
@with_groups
def forget(
    *,
    cluster: RunningCluster,
    name: Annotated[str, typer.Argument(help="The writer's name.")],
) -> None:
    """Forget what a writer published last; what it published stays.

    Only for one that does not come back: it could publish its last number again.
    """
    with cluster.connected() as log:
        log.admin.forget_writer(name)
    emit(f"writer {name} is forgotten\n".encode())
