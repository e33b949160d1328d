"""What the benchmarks share: where, how much, and which cluster."""

from pathlib import Path
from typing import Annotated

import typer

from ithaca.cli.options import DurabilityName, parse_size

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
RoundsOption = Annotated[int, typer.Option(min=1, help="Rounds; medians over them are printed.")]
FreshDurabilityOption = Annotated[
    DurabilityName | None,
    typer.Option(
        show_default="fsync", help="What an acknowledgement means: synced to the disks, or handed to the system."
    ),
]
ShardsOption = Annotated[int | None, typer.Option(min=1, show_default="1", help="Shards of the cluster.")]
ReplicasOption = Annotated[int | None, typer.Option(min=1, show_default="2", help="Replicas of each shard.")]
OrderersOption = Annotated[int | None, typer.Option(min=1, show_default="3", help="Orderers, an odd number.")]
FreshSegmentOption = Annotated[
    int | None,
    typer.Option(
        parser=parse_size, metavar="SIZE", show_default="64M", help="Bytes per file, of the cluster and of the ceiling."
    ),
]
ProfileOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Draw a flame graph of every process into DIR, in a turn that is not counted."),
]
