"""What the benchmarks share: where, how much, and which cluster."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.options import DurabilityName, FreshEngineOption, parse_size
from ithaca.cli.target import Cluster, parse_bootstrap
from ithaca.model.engine import DEFAULT_ENGINE

if TYPE_CHECKING:
    from ithaca.cluster.temporary import Shape

BENCH_DIRECTORY = Path("bench-data")

# Not from the environment: measuring fills a log, and that must be asked for.
RunningClusterOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", "-b", metavar="HOST:PORT,...", help="A cluster that runs already; else one is started."
    ),
]
DirectoryOption = Annotated[
    Path, typer.Option("--dir", metavar="DIR", help="Where to make a fresh directory for the data.")
]
RecordBytesOption = Annotated[int, typer.Option(parser=parse_size, metavar="SIZE", help="Bytes per record.")]
BatchOption = Annotated[int, typer.Option(min=1, help="Records per batch; 1 appends them one by one.")]
SecondsOption = Annotated[float, typer.Option(min=0.001, help="Per measurement.")]
SegmentOption = Annotated[
    int,
    typer.Option(
        parser=parse_size, metavar="SIZE", show_default="64M", help="Bytes per file, of the log and of the ceiling."
    ),
]
PlotOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it into this PNG file.")]
WindowOption = Annotated[int, typer.Option(min=1, help="Batches in flight per producer.")]
RoundsOption = Annotated[int, typer.Option(min=1, help="Rounds; medians over them are printed.")]
ProfileOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Draw a flame graph of every process into DIR, in a turn that is not counted."),
]


@dataclass(frozen=True, slots=True)
class FreshCluster:
    """The cluster that is started for a measurement."""

    shards: Annotated[int | None, typer.Option(min=1, show_default="1", help="Shards of the cluster.")] = None
    replicas: Annotated[int | None, typer.Option(min=1, show_default="2", help="Replicas of each shard.")] = None
    orderers: Annotated[int | None, typer.Option(min=1, show_default="3", help="Orderers, an odd number.")] = None
    durability: Annotated[
        DurabilityName | None,
        typer.Option(
            show_default="fsync", help="What an acknowledgement means: synced to the disks, or handed to the system."
        ),
    ] = None
    segment_bytes: Annotated[
        int | None,
        typer.Option(
            parser=parse_size,
            metavar="SIZE",
            show_default="64M",
            help="Bytes per file, of the cluster and of the ceiling.",
        ),
    ] = None
    engine: FreshEngineOption = None

    def shape(self) -> "Shape":
        """With small segments, so that a short measurement fills some."""
        from ithaca.cluster.temporary import Shape

        return Shape(
            self.shards or 1,
            self.replicas or 2,
            self.orderers or 3,
            self.durability or "fsync",
            self.segment_bytes or 64 << 20,
            engine=self.engine or DEFAULT_ENGINE,
        )

    def unless(self, bootstrap: str | None) -> "str | Shape":
        """The running cluster that was named instead, which is measured as it is."""
        if bootstrap is None:
            return self.shape()
        for field in fields(self):
            if getattr(self, field.name) is not None:
                name = field.name.replace("_", "-")
                raise typer.BadParameter(f"a running cluster is measured as it is; leave --{name} out")
        return bootstrap


def reach(bootstrap: str | None, timeout_s: float | None) -> None:
    """Wait until the running cluster that is to be measured answers, at most for so long; none was named: at once."""
    if bootstrap is not None:
        Cluster(tuple(map(str, parse_bootstrap(bootstrap))), timeout_s).reader().close()
