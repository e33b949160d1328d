"""`ithaca bench corfu ...`: wires the command line to the measurements of the engine corfu."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ithaca.cli.bench.objects import parse_counts
from ithaca.cli.bench.options import (
    BENCH_DIRECTORY,
    BatchOption,
    DirectoryOption,
    PlotOption,
    RecordBytesOption,
    RoundsOption,
    SecondsOption,
    WindowOption,
)
from ithaca.cli.bench.report import measured, print_table
from ithaca.cli.options import JsonOption, examples, parse_size

app = typer.Typer(
    no_args_is_help=True,
    help="Measure the engine corfu: by sets of units, beside scalog, its sequencer, holes and outages.",
    epilog=examples(
        "ithaca bench corfu append --sets 1,2,4", "ithaca bench corfu sequencer", "ithaca bench corfu reconfigure"
    ),
)


@app.command(epilog=examples("ithaca bench corfu append --sets 1,2,4 --plot append.png"))
def append(
    directory: DirectoryOption = BENCH_DIRECTORY,
    sets: Annotated[str, typer.Option(metavar="N,...", help="Sets of two units; as many shards of scalog.")] = "1,2",
    record_bytes: RecordBytesOption = 4096,
    batch: BatchOption = 64,
    window: WindowOption = 4,
    producers: Annotated[int, typer.Option(min=1, help="Processes that append; at least one for each set.")] = 1,
    seconds: SecondsOption = 2.0,
    rounds: RoundsOption = 5,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Appends by sets of units, in turns with scalog of as many shards, and the processors' time for each."""
    from ithaca.bench.corfu.beside import SetsSettings, run_sets

    settings = SetsSettings(parse_counts(sets), record_bytes, batch, window, producers, seconds, rounds)
    for point in _measured(run_sets, directory, settings, as_json, plot).get("points", ()):
        _print_beside(f"{point['sets']} sets, {point['producers']} producers", point)


@app.command(epilog=examples("ithaca bench corfu latency", "ithaca bench corfu latency --record-bytes 100 --json"))
def latency(
    directory: DirectoryOption = BENCH_DIRECTORY,
    record_bytes: RecordBytesOption = 4096,
    seconds: SecondsOption = 2.0,
    rounds: RoundsOption = 5,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lone appends, in turns with scalog, and the sequencer's share of them."""
    from ithaca.bench.corfu.beside import LoneSettings, run_lone

    report = _measured(run_lone, directory, LoneSettings(record_bytes, seconds, rounds), as_json, plot)
    if report:
        _print_beside("lone appends", report)
        token = report["token"]["latency_ms"]
        print(f"a row alone: p50 {token['p50']:.3f} ms, {report['sequencer_share']:.2f} of an append")


@app.command(epilog=examples("ithaca bench corfu read --bytes 512M"))
def read(
    directory: DirectoryOption = BENCH_DIRECTORY,
    byte_count: Annotated[
        int, typer.Option("--bytes", parser=parse_size, metavar="SIZE", show_default="128M", help="What is there.")
    ] = 128 << 20,
    record_bytes: RecordBytesOption = 4096,
    batch: BatchOption = 64,
    seconds: SecondsOption = 2.0,
    rounds: RoundsOption = 5,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Single records, whole ranges, subscriptions, and scans of files and through sockets, in turns with scalog."""
    from ithaca.bench.corfu.beside import ScanSettings, run_scans

    settings = ScanSettings(byte_count, record_bytes, batch, seconds, rounds)
    report = _measured(run_scans, directory, settings, as_json, plot)
    if report:
        print_table("reading, from the page cache", report["contenders"])


@app.command(epilog=examples("ithaca bench corfu sequencer --groups 1,64,1024 --clients 2"))
def sequencer(
    directory: DirectoryOption = BENCH_DIRECTORY,
    groups: Annotated[str, typer.Option(metavar="N,...", help="Rows that are asked for at once.")] = "1,16,64,256",
    clients: Annotated[int, typer.Option(min=1, help="Processes that ask.")] = 1,
    window: Annotated[int, typer.Option(min=1, help="Requests in flight per client.")] = 4,
    seconds: SecondsOption = 2.0,
    rounds: RoundsOption = 3,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tokens a second of one sequencer, by how many are asked for at once."""
    from ithaca.bench.corfu.tokens import TokenSettings, run_sequencer

    settings = TokenSettings(parse_counts(groups), clients, window, seconds, rounds)
    for point in _measured(run_sequencer, directory, settings, as_json, plot).get("points", ()):
        print(
            f"groups of {point['group']}: {point['tokens_per_s']:,.0f} tokens/s, p50 {point['latency_ms']['p50']:.3f} "
            f"ms, {point['sequencer_cpu_us']:.1f} µs of the sequencer's processor for each"
        )


@app.command(epilog=examples("ithaca bench corfu holes --holes 500"))
def holes(
    directory: DirectoryOption = BENCH_DIRECTORY,
    record_bytes: RecordBytesOption = 4096,
    count: Annotated[int, typer.Option("--holes", min=1, help="Of each kind that are filled.")] = 200,
    waits: Annotated[int, typer.Option(min=1, help="Of each kind that a reader meets.")] = 5,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """How long it takes to fill a hole, and how long a reader is held up by one."""
    from ithaca.bench.corfu.asking import PATIENCE_MS
    from ithaca.bench.corfu.holes import HoleSettings, run_holes

    report = _measured(run_holes, directory, HoleSettings(record_bytes, count, waits), as_json, plot)
    for kind in PATIENCE_MS if report else ():
        filled, passed = report[kind]["fill_ms"], report[kind]["reader_ms"]
        print(
            f"{kind}: filled within {filled['p50']:.2f} ms in the median, p99 {filled['p99']:.2f}; a reader waits "
            f"{passed['p50']:.0f} ms, {report[kind]['reader_patience_ms']} of them for the writer"
        )


@app.command(epilog=examples("ithaca bench corfu reconfigure --rounds 5"))
def reconfigure(
    directory: DirectoryOption = BENCH_DIRECTORY,
    record_bytes: RecordBytesOption = 4096,
    rounds: RoundsOption = 5,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """How long nothing is appended when a unit or the sequencer is killed; of scalog when its leader is."""
    from ithaca.bench.corfu.outages import OutageSettings, run_outages

    report = _measured(run_outages, directory, OutageSettings(rounds, record_bytes), as_json, plot)
    for kind, outage in report.get("outages", {}).items():
        after = f", {outage['back_ms']:.0f} of them after it was decided" if "back_ms" in outage else ""
        print(f"{kind}: {outage['gap_ms']:.0f} ms without appends in the median{after}; {outage['rounds']}")


def _measured(run: Any, directory: Path, settings: object, as_json: bool, plot: Path | None) -> dict[str, Any]:
    from ithaca.bench.corfu.plot import draw

    return measured(run, directory, settings, as_json, plot, draw)


def _print_beside(title: str, found: dict[str, Any]) -> None:
    print_table(title, {name: found[name] for name in ("corfu", "scalog")})
    shares = found["ratios"]
    print(f"corfu / scalog: rate {shares['rate']:.2f}, p50 {shares['latency_p50']:.2f}; {shares['rounds']}")
    used = {name: found[name]["cpu_us_per_record"] for name in ("corfu", "scalog")}
    print(f"processor time for a record: corfu {used['corfu']:,.0f} µs, scalog {used['scalog']:,.0f} µs")
