"""`ithaca autoscale`: shards are added and finalized as the load asks for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import ClusterDirectoryOption, TimeoutOption, examples, parse_duration, parse_size, patience_s
from ithaca.cli.output import emit, json_line
from ithaca.cli.progress import status_line

AUTOSCALE_EXAMPLES = examples(
    "ithaca autoscale --min 2 --max 6 --dry-run",
    "ithaca autoscale --dir ./small --max 4 --bytes-per-s 20M --audit ./autoscale.log",
    "ithaca autoscale --hot 30 --cold 600 --cooldown 120 --grace 10",
)


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """How many shards there may be, and what each shall take."""

    shards_min: Annotated[int, typer.Option("--min", min=1, help="Never fewer live shards.")] = 1
    shards_max: Annotated[int, typer.Option("--max", min=1, help="Never more live shards.")] = 8
    bytes_per_s: Annotated[
        int,
        typer.Option(parser=parse_size, metavar="SIZE", show_default="32M", help="What a shard shall take at most."),
    ] = 32 << 20
    records_per_s: Annotated[float, typer.Option(min=0.001, help="The same, in records.")] = 100_000
    pending_bytes: Annotated[
        int, typer.Option(parser=parse_size, metavar="SIZE", show_default="16M", help="Accepted and not ordered yet.")
    ] = 16 << 20
    lag_records: Annotated[float, typer.Option(min=0.001, help="Synced and not ordered yet.")] = 50_000
    finalize_below: Annotated[
        float, typer.Option(help="Finalize a shard if the others stay below this share of these limits.")
    ] = 0.5


@with_groups
def autoscale(
    *,
    directory: ClusterDirectoryOption = Path("ithaca-data"),
    limits: LimitOptions,
    hot: Annotated[
        float, typer.Option(parser=parse_duration, metavar="DURATION", help="Add after so long above a limit.")
    ] = 10.0,
    cold: Annotated[
        float, typer.Option(parser=parse_duration, metavar="DURATION", help="Finalize after so long below.")
    ] = 120.0,
    cooldown: Annotated[
        float, typer.Option(parser=parse_duration, metavar="DURATION", help="Do nothing for so long afterwards.")
    ] = 60.0,
    interval: Annotated[float, typer.Option(parser=parse_duration, metavar="DURATION", help="Look so often.")] = 5.0,
    grace: Annotated[
        float, typer.Option(parser=parse_duration, metavar="DURATION", help="For the clients of a shard that goes.")
    ] = 5.0,
    samples: Annotated[int | None, typer.Option(min=1, help="End after so many looks; else never.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Decide, and change nothing.")] = False,
    timeout: TimeoutOption = None,
    audit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append decisions to this file instead of printing them.")
    ] = None,
) -> None:
    """Add shards to the cluster in a directory under load, and finalize them when it is idle.

    The mean over the live shards decides. Each decision is one line of JSON, with
    its reason, the loads, and what came of it.
    """
    from ithaca.cluster.autoscaling.autoscale import Acting
    from ithaca.cluster.autoscaling.autoscale import autoscale as run
    from ithaca.cluster.autoscaling.policy import AutoscaleSettings
    from ithaca.cluster.temporary import terminations_raised

    if interval < 0.05:
        raise typer.BadParameter("--interval is shorter than 50ms: look less often")
    settings = AutoscaleSettings(
        **asdict(limits),
        hot_s=hot,
        cold_s=cold,
        cooldown_s=cooldown,
    )
    acting = Acting(interval, grace, dry_run, patience_s(timeout))
    with terminations_raised(), _audited(audit) as write, status_line() as progress:
        run(directory.absolute(), settings, acting, write, progress, samples_max=samples)


@contextmanager
def _audited(path: Path | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Writes each entry as a line, at once."""
    if path is None:
        import sys

        def write(entry: dict[str, Any]) -> None:
            emit(json_line(entry))
            sys.stdout.flush()

        yield write
        return
    with path.open("ab", buffering=0) as file:
        yield lambda entry: _write_whole(file, json_line(entry))


def _write_whole(file: Any, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[file.write(rest) :]
