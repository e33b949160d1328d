"""`ithaca sequencer`: who hands out positions in a cluster that runs."""

from typing import Annotated

import typer

from ithaca.cli.cluster.target import RunningCluster
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import examples
from ithaca.cli.output import emit

app = typer.Typer(
    no_args_is_help=True,
    help="Replace the sequencer of a cluster of the engine corfu.",
    epilog=examples("ithaca sequencer replace", "ithaca sequencer replace 2", "ithaca sequencer replace none"),
)

REPLACE_EXAMPLES = examples("ithaca sequencer replace 2", "ithaca sequencer replace none -b 10.0.0.11:7600")


@app.callback()
def sequencer() -> None:
    """Replace the sequencer of a cluster of the engine corfu."""


@app.command(epilog=REPLACE_EXAMPLES)
@with_groups
def replace(
    *,
    cluster: RunningCluster,
    orderer: Annotated[
        str | None, typer.Argument(metavar="[N|none]", show_default=False, help="The orderer that follows, or none.")
    ] = None,
) -> None:
    """Have another orderer hand out positions: this one, or the next.

    With none nobody does: whoever appends contends for the next position, which
    is slower, until a sequencer is named again.
    """
    if orderer is not None and orderer != "none" and not orderer.isdecimal():
        raise typer.BadParameter(f"{orderer!r} is no orderer: use its number, or none")
    wanted = None if orderer is None else 0 if orderer == "none" else int(orderer)
    with cluster.connected() as log:
        number = log.admin.replace_sequencer(wanted)
    said = f"orderer {number} hands out positions" if number else "nobody hands out positions: appends contend for them"
    emit(f"{said}\n".encode())
