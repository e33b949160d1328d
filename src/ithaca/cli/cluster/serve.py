"""`ithaca serve`: one server of a cluster, for clusters of many machines and for the supervisor of one."""

from pathlib import Path
from typing import Annotated

import typer

from ithaca.cli.cluster.serving import Given, WrongUsage
from ithaca.cli.cluster.serving import serve as run
from ithaca.cli.options import examples

SERVE_EXAMPLES = examples(
    "ithaca serve --config cluster.toml --orderer 1 --dir /var/lib/ithaca/orderer-1",
    "ithaca serve --config cluster.toml --replica 0/1 --dir /var/lib/ithaca/shard-0-replica-1",
    "ithaca serve --config cluster.toml --aggregator 1",
    "ithaca serve --config cluster.toml --spare 10.0.0.19:7610 --dir /var/lib/ithaca/spare",
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
    try:
        status = run(Given(config, directory, orderer, replica, aggregator, spare, listen, insecure))
    except WrongUsage as error:
        raise typer.BadParameter(str(error)) from None
    raise typer.Exit(status)
