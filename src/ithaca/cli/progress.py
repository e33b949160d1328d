"""Progress on standard error: only on a terminal, and gone when the work is done."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ithaca.archive.progress import Done

Advance = Callable[[int], object]
"""To be told the bytes done since the last time."""


@contextmanager
def byte_progress(total_bytes: int | None, *, wanted: bool = True) -> Iterator[Advance]:
    """A bar of bytes; without a total it only moves."""
    if not wanted or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    columns = BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total_bytes)
        yield lambda count: progress.advance(task, count)


@contextmanager
def archive_progress() -> Iterator["Callable[[Done], object]"]:
    """A bar of positions out of all, as soon as those are known, with the bytes and what is left of the time."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ithaca.cli.output import size_text

    columns = BarColumn(), MofNCompleteColumn(), TextColumn("positions, {task.description}"), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(size_text(0), total=None)
        size = 0

        def advance(done: "Done") -> None:
            nonlocal size
            size += done.bytes
            progress.update(task, advance=done.positions, total=done.of, description=size_text(size))

        yield advance


@contextmanager
def status_line() -> Iterator[Callable[[str], object]]:
    """What is being done: a line that changes on a terminal, else a line for each change."""
    if not sys.stderr.isatty():
        newest = ""

        def tell(text: str) -> None:
            nonlocal newest
            if text != newest:
                newest = text
                print(text, file=sys.stderr)

        yield tell
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda text: status.update(text)
