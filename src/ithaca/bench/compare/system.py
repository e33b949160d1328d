"""A system that is compared: how it is started, what it promises at the acknowledgement, and what it costs."""

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
    cannot_follow: str | None = None
    """Why nobody can subscribe to it, where that is so."""


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
