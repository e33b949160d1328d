"""A system that is compared: how it is started, what it promises at the acknowledgement, and what it costs."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import ClassVar, Literal

from ithaca.bench.compare.work import Connect
from ithaca.bench.measure import Progress
from ithaca.model.errors import Unavailable

Durable = Literal["synced", "page cache"]


@dataclass(frozen=True, slots=True)
class Running:
    """A system that is up: how clients reach it, and the processes of its servers."""

    connect: Connect
    pids: Callable[[], Sequence[int]]
    version: str
    settings: Mapping[str, str] = field(default_factory=dict)
    appenders_max: int | None = None
    """Processes that may append at the same time, where that is bounded."""


class System(ABC):
    """What can be compared. `acknowledged` says in plain words what is durable when an append is acknowledged.

    Systems with the same `durable` and `copies` are compared with each other; a record is on so many disks.
    """

    name: str
    durable: Durable = "synced"
    copies: ClassVar[int] = 2
    order: ClassVar[str]
    acknowledged: str

    @abstractmethod
    def run(self, directory: Path, progress: Progress) -> AbstractContextManager[Running]:
        """Start it in `directory`, which must not be there yet. `Unavailable` says why it cannot be had here."""


def needed(module: str, package: str) -> ModuleType:
    """A client library that is installed for comparisons alone."""
    try:
        return import_module(module)
    except ImportError:
        raise Unavailable(f"{package} is not installed: pip install {package}, or say make compare") from None


def cpu_s(pids: Sequence[int]) -> float:
    """CPU seconds that the processes have used so far, in user and kernel mode."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def written_bytes(pids: Sequence[int]) -> int:
    """What the processes have had the kernel write to disks so far."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            name, _, count = line.partition(": ")
            if name == "write_bytes":
                total += int(count)
    return total
