"""`ithaca bench raft ...`: wires the command line to the measurements of the engine raft."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ithaca.cli.bench.objects import parse_counts
from ithaca.cli.bench.options import (
    BENCH_DIRECTORY,
    DirectoryOption,
    PlotOption,
    RecordBytesOption,
    RoundsOption,
    SecondsOption,
    WindowOption,
)
from ithaca.cli.bench.report import measured, print_table
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import JsonOption, examples, parse_size

app = typer.Typer(
    no_args_is_help=True,
    help="Measure the engine raft: log sharing against the naive store, beside scalog, and without some server.",
    epilog=examples("ithaca bench raft sharing", "ithaca bench raft beside", "ithaca bench raft failover"),
)

SizesOption = Annotated[str, typer.Option("--record-bytes", metavar="N,...", help="Bytes of each record.")]
BatchesOption = Annotated[str, typer.Option("--batch", metavar="N,...", help="Records of each batch.")]
ProducersOption = Annotated[int, typer.Option(min=1, help="Processes that append.")]


@dataclass(frozen=True, slots=True)
class VariantOptions:
    """How variants of the engine are measured in turns."""

    batch: BatchesOption = "1,64"
    producers: ProducersOption = 1
    window: WindowOption = 8
    seconds: SecondsOption = 2.0
    rounds: RoundsOption = 3
    plot: PlotOption = None
    as_json: JsonOption = False
    directory: DirectoryOption = BENCH_DIRECTORY

    def measure(self, run: Callable[..., dict[str, Any]], record_bytes: str) -> None:
        from ithaca.bench.raft.sharing import VariantSettings

        sizes, batches = parse_counts(record_bytes), parse_counts(self.batch)
        settings = VariantSettings(sizes, batches, self.producers, self.window, self.seconds, self.rounds)
        _measure_variants(run, self.directory, settings, self.plot, self.as_json)


@app.command(epilog=examples("ithaca bench raft sharing --record-bytes 128,1024,4096 --batch 1,64 --plot sharing.png"))
@with_groups
def sharing(
    *,
    record_bytes: SizesOption = "512,4096",
    options: VariantOptions,
) -> None:
    """Log sharing in turns with a store that writes payloads twice: rates, and bytes on the disk."""
    from ithaca.bench.raft.sharing import run_sharing

    options.measure(run_sharing, record_bytes)


@app.command(epilog=examples("ithaca bench raft commits --record-bytes 512 --batch 1 --window 32"))
@with_groups
def commits(
    *,
    record_bytes: SizesOption = "512",
    options: VariantOptions,
) -> None:
    """The engine in turns with the same without group commit, without pipeline, and without both."""
    from ithaca.bench.raft.sharing import run_commits

    options.measure(run_commits, record_bytes)


@app.command(epilog=examples("ithaca bench raft beside", "ithaca bench raft beside --rounds 9 --json"))
def beside(
    directory: DirectoryOption = BENCH_DIRECTORY,
    record_bytes: RecordBytesOption = 4096,
    batch: Annotated[int, typer.Option(min=1, help="Records of a batch.")] = 64,
    window: WindowOption = 4,
    seconds: SecondsOption = 2.0,
    rounds: RoundsOption = 5,
    as_json: JsonOption = False,
) -> None:
    """Lone appends and batches, in turns with scalog of one shard, two replicas and three orderers."""
    from ithaca.bench.raft.beside import BesideSettings, run_beside

    report = measured(run_beside, directory, BesideSettings(record_bytes, batch, window, seconds, rounds), as_json)
    for kind in ("lone", "batches") if report else ():
        print_table(kind, {name: each for name, each in report[kind].items() if name != "ratios"})
        shares = report[kind]["ratios"]
        print(f"raft / scalog: rate {shares['rate']:.2f}, p50 {shares['latency_p50']:.2f}; {shares['rounds']}")


@app.command("catch-up", epilog=examples("ithaca bench raft catch-up --bytes 1G"))
def catch_up(
    directory: DirectoryOption = BENCH_DIRECTORY,
    missed: Annotated[
        int, typer.Option("--bytes", parser=parse_size, metavar="SIZE", show_default="1G", help="What it missed.")
    ] = 1 << 30,
    seconds: SecondsOption = 0.5,
    as_json: JsonOption = False,
) -> None:
    """The rate of appends while a follower copies what it missed, in turns with a group that misses nothing."""
    from ithaca.bench.raft.absent import CatchUpSettings, run_catch_up

    report = measured(run_catch_up, directory, CatchUpSettings(missed, seconds=seconds), as_json)
    if report:
        during, undisturbed = (report[f"{which}_bytes_per_s"] / 1e6 for which in ("during", "undisturbed"))
        print(
            f"caught up in {report['catch_up_s']:.1f} s; {during:,.1f} MB/s meanwhile, {undisturbed:,.1f} undisturbed"
        )
        print(f"{report['share']:.2f} of it in the median of the turns: {report['shares']}")


@app.command(epilog=examples("ithaca bench raft failover --rounds 5"))
def failover(
    directory: DirectoryOption = BENCH_DIRECTORY,
    rounds: RoundsOption = 5,
    as_json: JsonOption = False,
) -> None:
    """How long it takes until an append is acknowledged after the leader was killed."""
    from ithaca.bench.raft.absent import FailoverSettings, run_failover

    report = measured(run_failover, directory, FailoverSettings(rounds), as_json)
    if report:
        print(f"appends are back after {report['median_ms']:.0f} ms in the median: {report['back_after_ms']}")


def _measure_variants(
    run: Callable[..., dict[str, Any]], directory: Path, settings: object, plot: Path | None, as_json: bool
) -> None:
    from ithaca.bench.raft.plot import draw

    report = measured(run, directory, settings, as_json, plot, draw)
    for point in report.get("points", ()):
        print_table(f"{point['record_bytes']} bytes x {point['batch']}", point["variants"])
        for name, figures in point["variants"].items():
            shared = figures.get("shared")
            ratio = "" if shared is None else f"; shared / {name}: rate {shared['rate']:.2f}, {shared['written']:.3f}"
            print(f"  {name}: {figures['written']:.3f} bytes on each disk for a byte of payload{ratio}")
