"""Puts the commands together, for `typer`, which is loaded with this module."""

from typing import Annotated

import typer

from ithaca.cli import consume, consumer, demo, keep, produce, publish, store, upkeep
from ithaca.cli.bench import bench
from ithaca.cli.cluster import (
    autoscale,
    certs,
    logs,
    orderer,
    sequencer,
    serve,
    session,
    shard,
    status,
    unit,
    up,
    user,
    writer,
)
from ithaca.cli.proving import check_history, sim, torture

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: ithaca demo. Then: echo hello | ithaca append -p ./events; ithaca read -p ./events. "
    "A cluster: ithaca up",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from ithaca.version import VERSION

        print(f"ithaca {VERSION}")
        raise typer.Exit


@app.callback()
def ithaca(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A shared log: append records, read them back in one order, follow them as they arrive."""


app.command(epilog=produce.APPEND_EXAMPLES)(produce.append)
app.command(epilog=publish.PUBLISH_EXAMPLES)(publish.publish)
app.command(epilog=consume.READ_EXAMPLES)(consume.read)
app.command(epilog=consume.FOLLOW_EXAMPLES)(consume.follow)
app.command(epilog=upkeep.TAIL_EXAMPLES)(upkeep.tail)
app.command(epilog=upkeep.TRIM_EXAMPLES)(upkeep.trim)
app.command(epilog=upkeep.STATS_EXAMPLES)(upkeep.stats)
app.command(epilog=upkeep.VERIFY_EXAMPLES)(upkeep.verify)
app.command(epilog=keep.BACKUP_EXAMPLES)(keep.backup)
app.command(epilog=keep.RESTORE_EXAMPLES)(keep.restore)
app.command(epilog=keep.COPY_EXAMPLES)(keep.copy)
app.command(epilog=keep.SALVAGE_EXAMPLES)(keep.salvage)
app.command(epilog=up.UP_EXAMPLES)(up.up)
app.command(epilog=up.DOWN_EXAMPLES)(up.down)
app.command(epilog=status.STATUS_EXAMPLES)(status.status)
app.command(epilog=logs.LOGS_EXAMPLES)(logs.logs)
app.command(epilog=autoscale.AUTOSCALE_EXAMPLES)(autoscale.autoscale)
app.command(epilog=serve.SERVE_EXAMPLES)(serve.serve)
app.command(epilog=demo.DEMO_EXAMPLES)(demo.demo)
app.command(epilog=sim.SIM_EXAMPLES)(sim.sim)
app.command(epilog=torture.TORTURE_EXAMPLES)(torture.torture)
app.command(epilog=check_history.CHECK_HISTORY_EXAMPLES)(check_history.check_history)
app.add_typer(store.app, name="store")
app.add_typer(consumer.app, name="consumer")
app.add_typer(shard.app, name="shard")
app.add_typer(orderer.app, name="orderer")
app.add_typer(unit.app, name="unit")
app.add_typer(sequencer.app, name="sequencer")
app.add_typer(session.app, name="session")
app.add_typer(writer.app, name="writer")
app.add_typer(user.app, name="user")
app.add_typer(certs.app, name="certs")
app.add_typer(bench.app, name="bench")
