"""`ithaca bench backup`: wires the command line to the measurement of appends beside a backup."""

from typing import Annotated

import typer

from ithaca.cli.bench.objects import EmbeddedOption
from ithaca.cli.bench.options import (
    BENCH_DIRECTORY,
    BatchOption,
    DirectoryOption,
    FreshCluster,
    RecordBytesOption,
    RunningClusterOption,
    SecondsOption,
    WindowOption,
    reach,
)
from ithaca.cli.bench.report import print_rates
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import JsonOption, TimeoutOption, examples, parse_size
from ithaca.cli.output import size_text
from ithaca.cli.progress import status_line

BACKUP_EXAMPLES = examples(
    "ithaca bench backup --bytes 10G",
    "ithaca bench backup --embedded --bytes 10G",
    "ithaca bench backup --bytes 1G --no-yield --pace 20MB",
    "ithaca bench backup --bytes 1G --shards 2 --restore",
)


@with_groups
def backup(
    *,
    bootstrap: RunningClusterOption = None,
    timeout: TimeoutOption = None,
    embedded: EmbeddedOption = False,
    directory: DirectoryOption = BENCH_DIRECTORY,
    byte_count: Annotated[
        int,
        typer.Option(
            "--bytes", parser=parse_size, metavar="SIZE", show_default="2G", help="What the log is filled with."
        ),
    ] = 2 << 30,
    record_bytes: RecordBytesOption = 4096,
    batch: BatchOption = 64,
    window: WindowOption = 4,
    seconds: SecondsOption = 2.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; fewer if the backup is done before.")] = 20,
    pace: Annotated[
        int | None, typer.Option(parser=parse_size, metavar="SIZE", help="As of ithaca backup: 20MB in a second.")
    ] = None,
    yields: Annotated[
        bool, typer.Option("--yield/--no-yield", help="As of ithaca backup: whether it rests while others append.")
    ] = True,
    restore: Annotated[
        bool,
        typer.Option("--restore", help="Then restore it into a new log of the same shape, and compare all records."),
    ] = False,
    fresh: FreshCluster,
    as_json: JsonOption = False,
) -> None:
    """Appends while a backup runs, in turns with appends alone.

    One backup of the log is made by ithaca backup in a process of its own, which is stopped while
    appends are measured alone. With --restore it is restored afterwards, by ithaca restore, and both
    logs are read side by side.
    """
    from ithaca.bench.keeping import BackupSettings, run_backup

    if embedded and bootstrap is not None:
        raise typer.BadParameter("--embedded is a log of its own; leave --bootstrap out")
    if restore and bootstrap is not None:
        raise typer.BadParameter("--restore needs a cluster of its own; leave --bootstrap out")
    cluster = None if embedded else fresh.unless(bootstrap)
    reach(bootstrap, timeout)
    settings = BackupSettings(cluster, byte_count, record_bytes, batch, window, seconds, rounds, pace, yields, restore)
    with status_line() as progress:
        report = run_backup(directory, settings, progress)
    print_rates(report, as_json)
    if not as_json:
        kept = report["backup"]
        print(f"backup of {size_text(kept['bytes'])}: {kept['bytes_per_s_beside'] / 1e6:.1f} MB/s beside appends")
    if restore and not as_json:
        back = report["restore"]
        where = "the same at the same positions" if back["same_positions"] else "the same in the same order"
        print(f"restore: {back['bytes_per_s'] / 1e6:.1f} MB/s; {back['records']} records are {where}")
