"""`ithaca tail`, `trim`, `stats`, `verify`: what a log holds, and whether it is sound."""

from typing import Annotated, Any

import typer

from ithaca.cli.options import (
    BootstrapOption,
    EmbeddedPathOption,
    JsonOption,
    KeptPathOption,
    PathOption,
    TimeoutOption,
    examples,
    parse_position,
)
from ithaca.cli.output import emit, emit_json, note, size_text
from ithaca.cli.progress import byte_progress
from ithaca.cli.target import chosen_target
from ithaca.cli.template import iso_time

TAIL_EXAMPLES = examples("ithaca tail -p ./events", "ithaca tail -b 127.0.0.1:7600 --json")
TRIM_EXAMPLES = examples("ithaca trim -p ./events --before 1000", "ithaca trim -b 127.0.0.1:7600 --before 1000")
STATS_EXAMPLES = examples("ithaca stats -p ./events", "ithaca stats -p ./events --json")
VERIFY_EXAMPLES = examples("ithaca verify -p ./events", "ithaca verify -p ./events --json")

DAMAGED = 3
"""The exit status of `verify` when it found something."""


def tail(
    context: typer.Context,
    path: PathOption = None,
    bootstrap: BootstrapOption = None,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the first position that can be read, and the next one to be written."""
    with chosen_target(context, path, bootstrap, timeout).reader() as log:
        ends = {"first": log.first(), "tail": log.tail()}
    if as_json:
        emit_json(ends)
    else:
        emit(f"first {ends['first']}\ntail {ends['tail']}\n".encode())


def trim(
    context: typer.Context,
    before: Annotated[
        str, typer.Option(metavar="POSITION", help="Give up every record below this position, for good.")
    ],
    path: PathOption = None,
    bootstrap: BootstrapOption = None,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give up the oldest records. This cannot be undone; space is freed a segment at a time."""
    target = chosen_target(context, path, bootstrap, timeout)
    position = parse_position(before)
    with target.writer(create=False) as log:
        log.trim(position)
        first = log.first()
    if as_json:
        emit_json({"first": first})
    else:
        emit(f"first {first}\n".encode())


def stats(path: EmbeddedPathOption, as_json: JsonOption = False) -> None:
    """Print what the log holds: records, bytes, segments, sessions, oldest and newest time.

    Embedded logs only; of a cluster, see ithaca status.
    """
    import msgspec

    from ithaca.embedded.stats import collect

    figures: dict[str, Any] = msgspec.to_builtins(collect(path))
    if as_json:
        emit_json(figures)
        return
    for name, value in figures.items():
        label = name.removesuffix("_us").replace("_", " ")
        emit(f"{label:<14} {_figure_text(name, value)}\n".encode())


def _figure_text(name: str, value: Any) -> str:
    if name.endswith("_us"):
        return iso_time(value) if value else "-"
    if name == "bytes":
        return f"{value} ({size_text(value)})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def verify(path: KeptPathOption, as_json: JsonOption = False) -> None:
    """Check every byte of the log, and say what is wrong where.

    Exit status 0 when all is well, 3 when something is damaged.
    Changes nothing. Embedded logs and backups only, these in directories or object stores.
    """
    from ithaca.archive.backup import backup_bytes, verify_backup
    from ithaca.archive.folder import is_backup
    from ithaca.archive.places import is_url, place_of
    from ithaca.embedded.verify import bytes_to_verify
    from ithaca.embedded.verify import verify as findings_of

    findings = 0
    is_kept = is_url(path) or is_backup(place_of(path))
    size = backup_bytes(path) if is_kept else bytes_to_verify(path)
    with byte_progress(size) as advance:
        for finding in verify_backup(path, advance) if is_kept else findings_of(path, advance):
            findings += 1
            if as_json:
                emit_json({"file": finding.file, "offset": finding.offset, "problem": finding.problem})
            else:
                emit(f"{finding.file} at byte {finding.offset}: {finding.problem}\n".encode())
    if findings:
        note(f"the log is damaged: {findings} finding{'' if findings == 1 else 's'}")
        raise typer.Exit(DAMAGED)
    if not as_json:
        emit(b"sound: every byte checks out\n")
