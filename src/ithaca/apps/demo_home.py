"""Where a demo keeps its data."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def demo_home(directory: Path | None, keep: bool) -> Iterator[Path]:
    """A fresh directory, under `directory` or where temporary ones go; removed afterwards unless it is kept."""
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="ithaca-demo-", dir=directory))
    try:
        yield home.absolute()
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)
