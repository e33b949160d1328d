"""`ithaca bench emulate`: wires the command line to the emulation of many shards."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ithaca.cli.bench.options import DirectoryOption, ProfileOption, RoundsOption, SecondsOption
from ithaca.cli.bench.report import print_surroundings
from ithaca.cli.options import JsonOption, examples
from ithaca.cli.output import emit_json
from ithaca.cli.progress import status_line

EMULATE_EXAMPLES = examples(
    "ithaca bench emulate",
    "ithaca bench emulate --shards 600 --replicas-per-connection 1 --order-interval-us 20000",
    "ithaca bench emulate --shards 60 --report-interval-ms 50 --order-interval-us 20000 --scale-records 1,10,100",
    "ithaca bench emulate --shards 600 --aggregators 0,1,2 --replicas-per-connection 1 --repeat-interval-ms 5000",
    "ithaca bench emulate --shards 600 --profile ./flames --json",
)
MEMORY_DISK = Path("/dev/shm/ithaca-bench")


def parse_counts(text: str, least: int = 1) -> tuple[int, ...]:
    """Whole numbers from the least on, with commas between them.

    >>> parse_counts("6,60, 600")
    (6, 60, 600)
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) >= least for part in parts):
        raise typer.BadParameter(f"{text!r} is no list of whole numbers from {least} on, such as 6,60,600")
    return tuple(map(int, parts))


ReportIntervalOption = Annotated[
    float,
    typer.Option(
        min=0, help="Report this often; 0: whenever the last report was covered by a cut, as soon as that is."
    ),
]


def emulate(
    shards: Annotated[
        str, typer.Option(metavar="N,...", help="How many shards, one run for each.")
    ] = "6,60,600,3500,10000",
    scale_records: Annotated[
        str, typer.Option(metavar="N,...", help="Multiply the records by each of these, with the same shards.")
    ] = "1",
    records_per_s: Annotated[float, typer.Option(min=0.001, help="Records that each shard takes in.")] = 15_000,
    report_interval_ms: ReportIntervalOption = 0,
    repeat_interval_ms: Annotated[
        float, typer.Option(min=1, help="Repeat a report that no cut has covered this often; real replicas do, at 50.")
    ] = 50,
    order_interval_us: Annotated[int, typer.Option(min=0, help="The least time between two cuts.")] = 0,
    seconds: SecondsOption = 2.0,
    rounds: RoundsOption = 3,
    orderers: Annotated[int, typer.Option(min=1, help="Orderers, an odd number.")] = 3,
    aggregators: Annotated[
        str,
        typer.Option(metavar="N,...", help="How many aggregators between emulated replicas and leader, one run each."),
    ] = "0",
    emulators: Annotated[int, typer.Option(min=1, help="Processes that emulate storage servers.")] = 1,
    replicas_per_connection: Annotated[
        int, typer.Option(min=1, help="Emulated replicas that share a connection; real ones have one each.")
    ] = 100,
    directory: DirectoryOption = MEMORY_DISK,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Very many emulated shards that report to a real ordering layer.

    Each shard is two replicas that speak as real ones do and hold no
    records. Printed are cuts per second, the time from a report to the cut
    that covers it, and what that takes.
    """
    if orderers % 2 == 0:
        raise typer.BadParameter(f"{orderers} orderers survive no more failures than {orderers - 1}: use an odd number")
    scales = parse_counts(scale_records)
    counts = parse_counts(shards)
    between = parse_counts(aggregators, least=0)
    from ithaca.bench.emulation.emulate import EmulateSettings, run_emulate

    settings = EmulateSettings(
        shards=counts,
        scales=scales,
        records_per_s=records_per_s,
        report_interval_s=report_interval_ms / 1e3,
        repeat_interval_s=repeat_interval_ms / 1e3,
        order_interval_us=order_interval_us,
        seconds=seconds,
        rounds=rounds,
        orderers=orderers,
        emulators=emulators,
        replicas_per_connection=replicas_per_connection,
        aggregators=between,
    )
    with status_line() as progress:
        report = run_emulate(directory, settings, progress, profile)
    _print(report, as_json)


def _print(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit_json(report)
        return
    from rich.console import Console
    from rich.table import Table

    print_surroundings(report)
    table = Table(
        title="emulate: medians over the rounds; CPU in cores; connections are the leader's", title_justify="left"
    )
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    rows = [row for row in report["rows"] if "failed" not in row]
    for row in rows:
        table.add_row(*_cells(row))
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    print("arithmetic, not measured: if every shard took in what one real shard does,")
    for shards in dict.fromkeys(row["shards"] for row in rows):
        each = next(row["arithmetic"] for row in rows if row["shards"] == shards)
        print(f"  {each['shards']:,} shards × {each['shard_records_per_s']:,} = {each['records_per_s']:,} records/s")
    for row in rows:
        if len(report["settings"]["scales"]) > 1 and row["leader_cpu_to_first_scale"] is not None:
            print(
                f"{row['shards']} shards, {row['aggregators']} aggregators, {row['scale']} × the records: the leader's "
                f"CPU per second is "
                f"{row['leader_cpu_to_first_scale']:.2f} times that of {report['settings']['scales'][0]} ×"
            )
    for row in report["rows"]:
        if "failed" in row:
            print(f"{row['shards']:,} shards, {row['aggregators']} aggregators: failed: {row['failed']}")
    for name, outcome in report.get("profiles", {}).items():
        print(f"profile of {name}: {outcome}")


_HEADINGS = (
    "shards",
    "aggr.",
    "conns",
    "× rec.",
    "cuts/s",
    "p50 ms",
    "p99 ms",
    "reports every ms",
    "leader",
    "follower",
    "aggr.",
    "emulators",
    "leader µs/report",
    "reports kB/s",
    "news kB/s",
    "records/s",
)


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        f"{row['shards']:,}",
        str(row["aggregators"]),
        f"{row['leader_connections']:,}",
        str(row["scale"]),
        f"{row['cuts_per_s']:,.1f}",
        f"{row['latency_ms']['p50']:.2f}",
        f"{row['latency_ms']['p99']:.2f}",
        f"{row['report_interval_ms']:.2f}",
        f"{row['leader_cpu']:.2f}",
        f"{row['follower_cpu']:.2f}",
        f"{row['aggregator_cpu']:.2f}",
        f"{row['emulator_cpu']:.2f}",
        f"{row['leader_cpu_us_per_report']:.0f}",
        f"{row['received_bytes_per_s'] / 1e3:,.0f}",
        f"{row['sent_bytes_per_s'] / 1e3:,.0f}",
        f"{row['ordered_records_per_s']:,.0f}",
    ]
