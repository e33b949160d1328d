"""Which cluster a command that changes one is about: that of a directory, or one by its orderers."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ithaca.cli.target import is_written, parse_bootstrap

if TYPE_CHECKING:
    from ithaca.model.interface import ClusterLog


def remote_cluster(context: typer.Context, bootstrap: str | None) -> str | None:
    """The cluster that --bootstrap names, unless --dir names one."""
    if bootstrap is not None and is_written(context, "directory"):
        if is_written(context, "bootstrap"):
            raise typer.BadParameter("--dir and --bootstrap each name a cluster; give one of them")
        return None
    return bootstrap


def named_cluster(context: typer.Context, directory: Path, bootstrap: str | None) -> str:
    """What to connect to, whichever of the two names it."""
    remote = remote_cluster(context, bootstrap)
    if remote is not None:
        return ",".join(map(str, parse_bootstrap(remote)))
    from ithaca.cluster.layout import bootstrap_of
    from ithaca.cluster.local import cluster_file

    return bootstrap_of(cluster_file(directory.absolute()))


def connected_cluster(bootstrap: str) -> "ClusterLog":
    """A handle of the cluster."""
    import ithaca

    return ithaca.connect(bootstrap)
