"""`ithaca bench ...`: wires the command line to `ithaca.bench`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ithaca.cli.options import CompressionOption, DurabilityOption, JsonOption, examples, parse_size
from ithaca.cli.output import emit_json
from ithaca.cli.progress import status_line

CEILING_EXAMPLES = examples(
    "ithaca bench ceiling",
    "ithaca bench ceiling --batch 1 --record-bytes 100",
    "ithaca bench ceiling --replicas 2 --window 8 --json",
)
EMBEDDED_EXAMPLES = examples(
    "ithaca bench embedded",
    "ithaca bench embedded --batch 1000 --record-bytes 100",
    "ithaca bench embedded --batch 1 --no-read",
    "ithaca bench embedded --dir /dev/shm/bench   (a memory disk: the CPU's share)",
)
MEMORY_EXAMPLES = examples("ithaca bench memory --bytes 10G", "ithaca bench memory --bytes 2G --json")

DirectoryOption = Annotated[
    Path, typer.Option("--dir", metavar="DIR", help="Where to make a fresh directory for the data.")
]
RecordBytesOption = Annotated[int, typer.Option(parser=parse_size, metavar="SIZE", help="Bytes per record.")]
BatchOption = Annotated[int, typer.Option(min=1, help="Records per batch; 1 appends them one by one.")]
SegmentOption = Annotated[
    int,
    typer.Option(parser=parse_size, metavar="SIZE", help="Bytes per file, of the log and of the ceiling."),
]
RoundsOption = Annotated[int, typer.Option(min=1, help="Rounds; medians over them are printed.")]
BENCH_DIRECTORY = Path("bench-data")

app = typer.Typer(no_args_is_help=True, help="Measure the log against what this machine can do at all.")


@app.command(epilog=CEILING_EXAMPLES)
def ceiling(
    directory: DirectoryOption = BENCH_DIRECTORY,
    record_bytes: RecordBytesOption = 4096,
    batch: BatchOption = 64,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Per measurement; 2 unless --bytes is given.")
    ] = None,
    byte_count: Annotated[
        int | None, typer.Option("--bytes", parser=parse_size, metavar="SIZE", help="Per measurement.")
    ] = None,
    rounds: RoundsOption = 3,
    replicas: Annotated[int, typer.Option(min=1, max=2, help="2: a client and two servers over TCP.")] = 1,
    window: Annotated[int, typer.Option(min=1, help="Batches in flight, with two replicas.")] = 4,
    durability: DurabilityOption = "fsync",
    segment_bytes: SegmentOption = 64 << 20,
    as_json: JsonOption = False,
) -> None:
    """Bare write and sync of batches, over a prewritten and over a growing file."""
    from ithaca.bench.bare import CeilingSettings
    from ithaca.bench.ceiling import run_ceiling

    settings = CeilingSettings(
        record_bytes=record_bytes,
        batch=batch,
        seconds=2.0 if seconds is None and byte_count is None else seconds,
        bytes=byte_count,
        rounds=rounds,
        replicas=replicas,
        window=window,
        file_bytes=segment_bytes,
        durability=durability,
    )
    with status_line() as progress:
        report = run_ceiling(directory, settings, progress)
    _print_rates(report, as_json)


@app.command(epilog=EMBEDDED_EXAMPLES)
def embedded(
    directory: DirectoryOption = BENCH_DIRECTORY,
    record_bytes: RecordBytesOption = 4096,
    batch: BatchOption = 64,
    seconds: Annotated[float, typer.Option(min=0.001, help="Per measurement.")] = 2.0,
    rounds: RoundsOption = 5,
    durability: DurabilityOption = "fsync",
    compression: CompressionOption = "none",
    threads: Annotated[int, typer.Option(min=1, help="Threads that append to the same log.")] = 1,
    read: Annotated[bool, typer.Option("--read/--no-read", help="Also measure reading.")] = True,
    read_bytes: Annotated[
        int,
        typer.Option(parser=parse_size, metavar="SIZE", show_default="256M", help="How much is read back."),
    ] = 256 << 20,
    segment_bytes: SegmentOption = 64 << 20,
    as_json: JsonOption = False,
) -> None:
    """The embedded log against the bare file, in turns: recycled with prewritten, fresh with growing."""
    from ithaca.bench.embedded import EmbeddedSettings, run_embedded

    settings = EmbeddedSettings(
        record_bytes=record_bytes,
        batch=batch,
        seconds=seconds,
        rounds=rounds,
        durability=durability,
        compression=compression,
        threads=threads,
        read=read,
        read_bytes=read_bytes,
        segment_bytes=segment_bytes,
    )
    with status_line() as progress:
        report = run_embedded(directory, settings, progress)
    _print_rates(report, as_json)


@app.command(epilog=MEMORY_EXAMPLES)
def memory(
    directory: DirectoryOption = BENCH_DIRECTORY,
    byte_count: Annotated[
        int,
        typer.Option("--bytes", parser=parse_size, metavar="SIZE", show_default="10G", help="How much to append."),
    ] = 10 << 30,
    baseline_bytes: Annotated[
        int,
        typer.Option(parser=parse_size, metavar="SIZE", show_default="1G", help="Note memory first after so much."),
    ] = 1 << 30,
    record_bytes: RecordBytesOption = 4096,
    batch: BatchOption = 64,
    durability: DurabilityOption = "fsync",
    segment_bytes: SegmentOption = 64 << 20,
    as_json: JsonOption = False,
) -> None:
    """Append with retention and read along; print private memory early and at the end."""
    from ithaca.bench.memory import MemorySettings, run_memory

    settings = MemorySettings(
        bytes=byte_count,
        baseline_bytes=baseline_bytes,
        record_bytes=record_bytes,
        batch=batch,
        retention_bytes=4 * segment_bytes,
        segment_bytes=segment_bytes,
        durability=durability,
    )
    with status_line() as progress:
        report = run_memory(directory, settings, progress)
    if as_json:
        emit_json(report)
        return
    _print_surroundings(report)
    print(
        f"private memory: {report['baseline_rss_anon_bytes'] / 1e6:.1f} MB "
        f"after {report['baseline_at_bytes'] / 1e9:.2f} GB, {report['end_rss_anon_bytes'] / 1e6:.1f} MB "
        f"after {report['end_at_bytes'] / 1e9:.2f} GB ({report['growth_bytes'] / 1e6:+.1f} MB), "
        f"at most {report['peak_rss_anon_bytes'] / 1e6:.1f} MB"
    )


def _print_surroundings(report: dict[str, Any]) -> None:
    settings = report["settings"]
    print(f"file system {settings['file_system']}, {settings['cores']} cores")


def _print_rates(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit_json(report)
        return
    from rich.console import Console

    from ithaca.bench.measure import rate_table

    settings = report["settings"]
    _print_surroundings(report)
    console = Console(width=None if sys.stdout.isatty() else 140)
    title = f"{report['bench']}: batches of {settings['batch']} records of {settings['record_bytes']} bytes"
    console.print(rate_table(title, report["contenders"]))
    if report.get("reads"):
        console.print(rate_table("reading, from the page cache", report["reads"]))
