"""Progress on standard error: only on a terminal, and gone when the work is done."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
