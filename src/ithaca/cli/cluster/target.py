"""Which cluster a command that changes one is about: that of a directory, or one by its orderers."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ithaca.cli.options import BootstrapOption, ClusterDirectoryOption, TimeoutOption, patience_s
from ithaca.cli.target import is_written, parse_bootstrap

if TYPE_CHECKING:
    from ithaca.model.interface import ClusterLog


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A cluster that runs, by --dir or by --bootstrap."""

    context: typer.Context
    directory: ClusterDirectoryOption = Path("ithaca-data")
    bootstrap: BootstrapOption = None
    timeout: TimeoutOption = None

    @property
    def remote(self) -> str | None:
        """What --bootstrap names, unless --dir names a cluster."""
        if self.bootstrap is not None and is_written(self.context, "directory"):
            if is_written(self.context, "bootstrap"):
                raise typer.BadParameter("--dir and --bootstrap each name a cluster; give one of them")
            return None
        return self.bootstrap

    @property
    def home(self) -> Path:
        """The directory of a cluster that is not remote."""
        return self.directory.absolute()

    def connected(self) -> "ClusterLog":
        """A handle of the cluster, whichever of the two names it."""
        import ithaca

        remote = self.remote
        if remote is not None:
            return ithaca.connect(",".join(map(str, parse_bootstrap(remote))), timeout=self.patience_s)
        from ithaca.cluster.layout import bootstrap_of
        from ithaca.cluster.local import cluster_file

        file = cluster_file(self.home)
        return ithaca.connect(bootstrap_of(file), timeout=self.patience_s, tls=file.client_tls, token=file.client_token)

    @property
    def patience_s(self) -> float:
        """How long the cluster is waited for."""
        return patience_s(self.timeout)
