"""`ithaca append`: records from arguments, files or standard input."""

import os
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from ithaca.cli.lines import read_lines, read_whole, ready
from ithaca.cli.options import (
    BootstrapOption,
    CompressionName,
    DurabilityName,
    JsonOption,
    PathOption,
    TimeoutOption,
    examples,
)
from ithaca.cli.output import emit, emit_json, note, size_text
from ithaca.cli.pipeline import Producer
from ithaca.cli.progress import byte_progress
from ithaca.cli.target import chosen_target
from ithaca.model.errors import IthacaError

APPEND_EXAMPLES = examples(
    "ithaca append -p ./events hello world --key user-7",
    "seq 1000 | ithaca append -p ./events",
    "tail -F app.log | ithaca append -p ./events",
    "ithaca append -p ./events --file users.tsv --key-separator $'\\t' --batch 1000",
    "ithaca append -p ./events --file a.png --file b.png --whole",
    "seq 1000 | ithaca append -b 127.0.0.1:7600   (a cluster)",
)


def append(
    context: typer.Context,
    values: Annotated[
        list[str] | None, typer.Argument(help="Values, one record each; standard input when there are none.")
    ] = None,
    path: PathOption = None,
    bootstrap: BootstrapOption = None,
    timeout: TimeoutOption = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    files: Annotated[list[Path] | None, typer.Option("--file", help="Read this file instead; may be repeated.")] = None,
    lines: Annotated[bool, typer.Option("--lines/--whole", help="A record per line, or per file.")] = True,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", help="Split each record at the first of these into key and value."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="At most so many records per atomic batch.")] = 1,
    durability: Annotated[
        DurabilityName | None,
        typer.Option(
            show_default="fsync",
            help="What an acknowledgement means: synced to the disk, or handed to the operating system. "
            "Embedded logs only; a cluster has its own.",
        ),
    ] = None,
    compression: Annotated[
        CompressionName | None, typer.Option(show_default="none", help="How batches are compressed.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Append records, and print their positions once they are durable.

    Arguments print a position each; files and standard input one summary.
    Input is binary safe: a record is a line without its newline.
    An embedded log is made if there is none.
    """
    target = chosen_target(context, path, bootstrap, timeout)
    if values and files:
        raise typer.BadParameter("values and --file exclude each other; give one of them")
    _check_keys(key, key_separator)
    with ExitStack() as stack:
        sources: list[BinaryIO] = [] if values else [stack.enter_context(file.open("rb")) for file in files or []]
        if not values and not files:
            sources.append(sys.stdin.buffer)
        log = stack.enter_context(target.writer(create=True, durability=durability, compression=compression))
        producer = Producer(
            log,
            key=None if key is None else os.fsencode(key),
            key_separator=None if key_separator is None else os.fsencode(key_separator),
            batch_records=batch,
            each_receipt=bool(values),
            as_json=as_json,
        )
        if values:
            for value in values:
                producer.add(os.fsencode(value))
            producer.settle()
        else:
            _append_streams(producer, sources, lines)


def _check_keys(key: str | None, key_separator: str | None) -> None:
    if key is not None and key_separator is not None:
        raise typer.BadParameter("--key and --key-separator exclude each other; give one of them")
    if key_separator == "":
        raise typer.BadParameter("the separator is empty", param_hint="'--key-separator'")


def _append_streams(producer: Producer, sources: list[BinaryIO], lines: bool) -> None:
    started = time.perf_counter()
    try:
        typed = any(source.isatty() for source in sources)
        with byte_progress(_total_bytes(sources), wanted=not typed) as advance:
            for source in sources:
                if not lines:
                    producer.add(read_whole(source))
                    continue
                for completed in read_lines(source):
                    for value in completed:
                        producer.add(value)
                    if not ready(source):
                        producer.settle()
                    advance(sum(map(len, completed)) + len(completed))
            producer.settle()
    except BaseException:
        with suppress(IthacaError):  # what stopped us is what counts
            producer.drain()
        note(f"stopped early: {producer.records} records were acknowledged, the last at {producer.last}")
        raise
    _print_summary(producer, time.perf_counter() - started)


def _total_bytes(sources: list[BinaryIO]) -> int | None:
    sizes = [os.fstat(source.fileno()).st_size for source in sources]
    return sum(sizes) if all(sizes) else None  # a pipe has no size


def _print_summary(producer: Producer, seconds: float) -> None:
    if producer.as_json:
        emit_json(
            {
                "records": producer.records,
                "bytes": producer.value_bytes,
                "first": producer.first,
                "last": producer.last,
                "seconds": round(seconds, 6),
            }
        )
    elif producer.records:
        emit(
            f"{producer.records} records ({size_text(producer.value_bytes)}) at positions "
            f"{producer.first} to {producer.last} in {seconds:.2f} s\n".encode()
        )
    else:
        emit(b"0 records: the input was empty\n")
