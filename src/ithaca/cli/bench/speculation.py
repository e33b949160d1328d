"""`ithaca bench speculation ...`: wires the command line to the measurements of the engine belfast beside scalog."""

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ithaca.cli.bench.objects import parse_counts
from ithaca.cli.bench.options import BENCH_DIRECTORY, DirectoryOption, RecordBytesOption, RoundsOption, SecondsOption
from ithaca.cli.bench.report import print_surroundings
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import JsonOption, examples, parse_duration
from ithaca.cli.output import emit_json, note
from ithaca.cli.progress import status_line

if TYPE_CHECKING:
    from ithaca.bench.speculation.lab import LabSettings

app = typer.Typer(
    no_args_is_help=True,
    help="Measure the engine belfast in turns with scalog: results before the order is final.",
    epilog=examples(
        "ithaca bench speculation delivery",
        "ithaca bench speculation compute --compute-ms 1,5,20 --plot compute.png",
        "ithaca bench speculation delivery --order-interval 5ms",
        "ithaca bench speculation failure --rounds 1 --json",
    ),
)


@dataclass(frozen=True, slots=True)
class Lab:
    """Two clusters of one shape, and their load."""

    directory: DirectoryOption = BENCH_DIRECTORY
    shards: Annotated[int, typer.Option(min=1, help="Shards, where they are not varied.")] = 2
    replicas: Annotated[int, typer.Option(min=1, help="Replicas of each shard.")] = 2
    orderers: Annotated[int, typer.Option(min=1, help="Orderers, an odd number.")] = 3
    record_bytes: RecordBytesOption = 4096
    batch: Annotated[int, typer.Option(min=1, help="Records per batch.")] = 1
    records_per_s: Annotated[float, typer.Option(min=1, help="The load of each shard.")] = 200.0
    compute: Annotated[float, typer.Option(min=0, metavar="MS", help="Computing on what has come together.")] = 1.5
    seconds: SecondsOption = 3.0
    at: Annotated[float, typer.Option(min=0.01, help="When something happens in a turn, if it does.")] = 1.0
    rounds: RoundsOption = 3
    order_interval: Annotated[
        float,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            show_default="self-clocked",
            help="The least time between two cuts, of both clusters, such as 5ms.",
        ),
    ] = 0.0
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it into this PNG file.")] = None
    as_json: JsonOption = False

    def settings(self) -> "LabSettings":
        from ithaca.bench.speculation.lab import LabSettings

        return LabSettings(
            shards=self.shards,
            replicas=self.replicas,
            orderers=self.orderers,
            record_bytes=self.record_bytes,
            batch=self.batch,
            records_per_s=self.records_per_s,
            compute_ms=self.compute,
            seconds=self.seconds,
            at_s=min(self.at, self.seconds / 2),
            rounds=self.rounds,
            order_interval_us=round(self.order_interval * 1e6),
        )

    def measure(self, run: Callable[..., dict[str, Any]], **told: Any) -> None:
        """Measure, draw if that is wanted, and print."""
        if self.plot is not None:
            from ithaca.bench.experiments.plot import check_can_plot

            check_can_plot()
        with status_line() as progress:
            report = run(self.directory, self.settings(), progress, **told)
        if self.plot is not None:
            from ithaca.bench.speculation.plot import draw

            draw(report, self.plot)
            note(f"drawn into {self.plot}")
        if self.as_json:
            emit_json(report)
        else:
            _print(report)


ShardsOption = Annotated[str, typer.Option("--numbers", metavar="N,...", help="Numbers of shards.")]


@app.command(epilog=examples("ithaca bench speculation delivery --numbers 2,4 --plot delivery.png"))
@with_groups
def delivery(lab: Lab, numbers: ShardsOption = "2,4") -> None:
    """How much earlier records are delivered, and results final, by the number of shards."""
    from ithaca.bench.speculation.points import run_delivery

    lab.measure(run_delivery, shards=parse_counts(numbers))


@app.command(epilog=examples("ithaca bench speculation compute --compute-ms 0.5,1.5,4,50"))
@with_groups
def compute(
    lab: Lab,
    compute_ms: Annotated[str, typer.Option(metavar="MS,...", help="Times to compute.")] = "0.5,1.5,5,15,50",
) -> None:
    """End-to-end latency and its parts, by how long is computed."""
    from ithaca.bench.speculation.points import run_compute

    lab.measure(run_compute, compute_ms=_parse_times(compute_ms))


@app.command(epilog=examples("ithaca bench speculation append --numbers 2 --seconds 2"))
@with_groups
def append(lab: Lab, numbers: ShardsOption = "2,4") -> None:
    """What an append costs more, under load and alone; bytes on the disks; what idle servers write."""
    from ithaca.bench.speculation.points import run_append

    lab.measure(run_append, shards=parse_counts(numbers))


@app.command(epilog=examples("ithaca bench speculation window --cuts 5,100 --seconds 2"))
@with_groups
def window(
    lab: Lab, cuts: Annotated[str, typer.Option(metavar="N,...", help="Cuts of a window.")] = "5,20,100,1000"
) -> None:
    """Latencies by how many cuts are fixed before, at a time."""
    from ithaca.bench.speculation.points import run_window

    lab.measure(run_window, rounds=parse_counts(cuts))


@app.command(epilog=examples("ithaca bench speculation shards --numbers 1,2,4"))
@with_groups
def shards(lab: Lab, numbers: ShardsOption = "1,2,4") -> None:
    """What is taken at most, and latencies at a steady load, by the number of shards."""
    from ithaca.bench.speculation.points import run_shards

    lab.measure(run_shards, shards=parse_counts(numbers))


@app.command(
    epilog=examples(
        "ithaca bench speculation emulate --numbers 2,4,10,40",
        "ithaca bench speculation emulate --interval-us 5000 --compute-ms 1,3,5",
    )
)
def emulate(
    numbers: ShardsOption = "2,4,10",
    records_per_s: Annotated[float, typer.Option(min=1, help="The load of each shard.")] = 100.0,
    seconds: SecondsOption = 1.0,
    delay_us: Annotated[int, typer.Option(min=1, help="Of a message from one machine to another.")] = 100,
    interval_us: Annotated[int, typer.Option(min=0, help="The least time between two cuts.")] = 0,
    compute_ms: Annotated[
        str | None, typer.Option(metavar="MS,...", help="Times to compute, for latencies end to end.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Latencies on simulated machines, a machine for each server: what the order alone costs.

    Real servers and clients on the simulator's network and clocks. Neither
    computing nor a disk takes time, so these are waits for messages alone,
    the same on every machine.
    """
    from ithaca.sim.latency import LatencySettings, compare_latencies

    settings = LatencySettings(
        records_per_s=records_per_s, seconds=seconds, delay_us=delay_us, order_interval_us=interval_us
    )
    engines = ("belfast", "scalog")
    times = () if compute_ms is None else _parse_times(compute_ms)
    points = compare_latencies(engines, settings, parse_counts(numbers), times)
    if as_json:
        emit_json({"bench": "speculation emulate", "points": points, "settings": asdict(settings)})
        return
    for point in points:
        print(f"{point['shards']} shards, means in ms:")
        for engine, found in point["engines"].items():
            print(
                f"  {engine}: append {found['append_ms']:.2f}, delivery {found['delivery_ms']:.2f}, "
                f"final {found['final_ms']:.2f}, failed {found['failed']}"
            )
        for time_ms in (f"{each:g}" for each in times):
            belfast, scalog = (point["engines"][engine]["end_to_end_ms"][time_ms] for engine in engines)
            print(
                f"  end to end, computing for {time_ms} ms: belfast {belfast:.2f}, scalog {scalog:.2f}, "
                f"scalog / belfast {scalog / belfast:.2f}"
            )


def _add_change(name: str, what: str, options: str = "") -> None:
    """The command for `what` happens in the middle of a turn; it takes nothing but the lab."""

    @app.command(name, help=what, epilog=examples(f"ithaca bench speculation {name} {options}--plot {name}.png"))
    @with_groups
    def command(lab: Lab) -> None:
        from ithaca.bench.speculation.changes import CHANGES

        lab.measure(CHANGES[name])


_add_change("bursts", "One shard gets ten times its rate for half a second.")
_add_change("rates", "The rate of one shard doubles.")
_add_change("elastic", "A shard joins under load, and leaves again.", "--seconds 4 ")
_add_change("stragglers", "The primary of one shard stands still again and again, for a second.")


@app.command(epilog=examples("ithaca bench speculation apps --seconds 5"))
@with_groups
def apps(lab: Lab) -> None:
    """Intrusion detection, fraud monitoring and trading, each with a database, end to end."""
    from ithaca.apps.speculative.rules import APPLICATIONS, measured
    from ithaca.bench.speculation.points import run_apps

    lab.measure(run_apps, applications={name: measured(name) for name in APPLICATIONS})


@app.command(epilog=examples("ithaca bench speculation failure --seconds 5 --plot failure.png"))
@with_groups
def failure(
    lab: Lab,
    detect: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="A replica that is silent for so long has failed.")
    ] = 0.5,
) -> None:
    """Fraud monitoring, and a replica of three is killed, then a whole shard of two: until results come again."""
    from ithaca.apps.speculative.rules import measured
    from ithaca.bench.speculation.changes import run_failure

    events, application = measured("fraud")
    lab.measure(run_failure, detect_s=detect, events=events, application=application)


def _parse_times(text: str) -> tuple[float, ...]:
    """
    >>> _parse_times("0.5,2")
    (0.5, 2.0)
    """
    try:
        times = tuple(float(each) for each in text.split(","))
    except ValueError:
        times = ()
    if not times or any(not 0 <= each < 60_000 for each in times):
        raise typer.BadParameter(f"{text!r} are no times: write milliseconds with commas between, such as 0.5,1.5,5")
    return times


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console

    print_surroundings(report)
    settings = report["settings"]
    print(
        f"shards of {settings['replicas']} replicas, {settings['orderers']} orderers; {settings['records_per_s']:g} "
        f"records/s of {settings['record_bytes']} bytes for each shard; {_clock(settings['order_interval_us'])}"
    )
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    for point in report["points"]:
        console.print(_table(report, point))
        for name, share in point["ratios"].items():
            rounds = " ".join(f"{each:.2f}" for each in share["rounds"])
            which = "belfast / scalog" if name.startswith("append") else "scalog / belfast"
            print(f"  {name.replace('_', ' ')}, {which}: {share['median']:.2f} ({rounds})")
        _print_more(point)
    if "best_compute_ms" in report:
        print(f"they overlap best at {report['best_compute_ms']:g} ms")


def _clock(interval_us: int) -> str:
    """
    >>> _clock(0), _clock(2_500)
    ('self-clocked', 'at least 2.5 ms between cuts')
    """
    return f"at least {interval_us / 1e3:g} ms between cuts" if interval_us else "self-clocked"


def _print_more(point: dict[str, Any]) -> None:
    """What some experiments have beyond latencies."""
    if "idle_writes_per_s" in point:
        print(f"  idle servers write so often a second, to anything: {point['idle_writes_per_s']}")
    if "most_ratio" in point:
        print(
            f"  records/s at most: {point['most_records_per_s']}; belfast / scalog {point['most_ratio']['median']:.2f}"
        )
    if "written_ratio" in point:
        print(f"  bytes on all disks for a record, belfast / scalog: {point['written_ratio']['median']:.3f}")
    for engine, figures in point["engines"].items():
        for name, latency in figures.get("phases", {}).items():
            print(f"  {engine}, {name}: end to end {latency['mean']:.1f} ms, p99 {latency['p99']:.1f}")
        for number, failures in enumerate(figures.get("recovery", ()), 1):
            for each in failures:
                print(f"  {engine}, round {number}: a speculation failed: {each}")


def _table(report: dict[str, Any], point: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(title=f"{report['bench']}: {point['point']}, medians over the rounds", title_justify="left")
    table.add_column("")
    columns = {"append_ms": "append", "delivery_ms": "delivery", "end_to_end_ms": "end to end"}
    shown = [each for each in columns if each in next(iter(point["engines"].values()))]
    for heading in ["records/s", *(f"{columns[each]} ms (p99)" for each in shown)]:
        table.add_column(heading, justify="right")
    with_parts = "delivery_ms" in shown
    if with_parts:
        table.add_column("delivery + queue + compute + wait", justify="right")
        table.add_column("failed", justify="right")
    for engine, figures in point["engines"].items():
        row = [f"{figures[each]['mean']:.2f} ({figures[each]['p99']:.1f})" for each in shown]
        if with_parts:
            row += [" + ".join(f"{each:.2f}" for each in figures["parts_ms"].values()), f"{figures['failed']:g}"]
        table.add_row(engine, f"{figures['records_per_s']:,.0f}", *row)
    return table
