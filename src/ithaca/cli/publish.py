"""`ithaca publish`: all records of some files at once, or none, and only once, however often it is run."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from ithaca.cli.lines import read_lines
from ithaca.cli.options import BootstrapOption, CompressionName, JsonOption, PathOption, TimeoutOption, examples
from ithaca.cli.output import emit, emit_json
from ithaca.cli.target import chosen_target
from ithaca.model.limits import BATCH_RECORDS_MAX, COALESCE_BYTES_MAX, PART_TTL_S, PUBLISH_KEY_MAX

if TYPE_CHECKING:
    from ithaca.model.interface import Log
    from ithaca.model.parts import Part, Published

PUBLISH_EXAMPLES = examples(
    "ithaca publish -b 127.0.0.1:7600 --writer nightly --number 20260101 users.tsv orders.tsv",
    "ithaca publish -b 127.0.0.1:7600 --writer nightly --number 20260101 users.tsv orders.tsv   (the same again)",
    "seq 1000 | ithaca publish -b 127.0.0.1:7600 --writer counter --number 1",
)


def publish(
    context: typer.Context,
    writer: Annotated[str, typer.Option("--writer", "-w", help="Who publishes: its numbers rise.")],
    number: Annotated[
        int, typer.Option("--number", "-n", min=0, max=PUBLISH_KEY_MAX, help="What this publication is known by.")
    ],
    files: Annotated[
        list[Path] | None, typer.Argument(help="A part each, in this order; standard input when there are none.")
    ] = None,
    path: PathOption = None,
    bootstrap: BootstrapOption = None,
    timeout: TimeoutOption = None,
    owner: Annotated[
        str, typer.Option("--owner", help="On whose behalf: another owner of the number is refused.")
    ] = "",
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    ttl: Annotated[float, typer.Option(help="Seconds after which what was prepared expires.")] = PART_TTL_S,
    compression: Annotated[
        CompressionName | None, typer.Option(show_default="none", help="How batches are compressed.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Append a record per line of all files as one atomic set with consecutive positions, and print these.

    Under the same writer and number it happens once: run again, after a crash or in doubt, it prints what it
    printed the first time. A number below the writer's newest is refused. Clusters only.
    """
    target = chosen_target(context, path, bootstrap, timeout)
    with ExitStack() as stack:
        sources: list[BinaryIO] = [stack.enter_context(file.open("rb")) for file in files or []]
        log = stack.enter_context(target.writer(create=False, compression=compression))
        record_key = None if key is None else os.fsencode(key)
        parts = [_prepared(log, source, record_key, ttl) for source in sources or [sys.stdin.buffer]]
        published = log.publish(number, parts, writer=writer, owner=owner)
        log.abort(parts)  # of those that were published before nothing is needed now
    _print(published, as_json)


def _prepared(log: "Log", source: BinaryIO, key: bytes | None, ttl: float) -> "Part":
    with log.open_part(ttl=ttl) as part:
        for values in _batches(source):
            part.append_many(values, keys=None if key is None else [key] * len(values))
        return part.finish()


def _batches(source: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of a source, in batches of a size that suits disks and networks."""
    values: list[bytes] = []
    size = 0
    for lines in read_lines(source):
        for line in lines:
            if values and (size + len(line) > COALESCE_BYTES_MAX or len(values) >= BATCH_RECORDS_MAX):
                yield values
                values, size = [], 0
            values.append(line)
            size += len(line)
    if values:
        yield values


def _print(published: "Published", as_json: bool) -> None:
    if as_json:
        import msgspec

        emit_json(msgspec.structs.asdict(published))
    elif published.count:
        last = published.positions[-1]
        emit(f"{published.count} records at positions {published.position} to {last}\n".encode())
    else:
        emit(b"0 records: there was nothing to publish\n")
