"""All systems and workloads, by the names that the command line has for them."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from ithaca.bench.compare.system import System
from ithaca.bench.compare.systems.bookkeeper import BookKeeper
from ithaca.bench.compare.systems.ithaca_log import IthacaCluster, IthacaDirectory
from ithaca.bench.compare.systems.kafka import Kafka
from ithaca.bench.compare.systems.local import PlainFile, Sqlite
from ithaca.bench.compare.systems.nats import Nats
from ithaca.bench.compare.systems.redis import Redis
from ithaca.bench.compare.workloads import WORKLOADS, Workload
from ithaca.model.errors import InvalidInput

REFERENCE: Final = "ithaca scalog"
"""What the others are compared with in the same rounds."""

SYSTEMS: Final[Mapping[str, System]] = {
    system.name.replace(", page cache", "-cache").replace(" ", "-"): system
    for system in (
        IthacaCluster("scalog"),
        IthacaCluster("raft"),
        IthacaCluster("corfu"),
        IthacaCluster("belfast"),
        Kafka("synced"),
        BookKeeper(),
        Nats("synced"),
        IthacaCluster("scalog", "os"),
        Kafka("page cache"),
        Nats("page cache"),
        IthacaDirectory(),
        Redis(),
        Sqlite(),
        PlainFile(),
    )
}

Named = TypeVar("Named")


def chosen_systems(names: str | None) -> list[System]:
    """Those of a list with commas between them; all of them where none is given."""
    return _chosen("system", names, SYSTEMS, list(SYSTEMS))


def chosen_workloads(names: str | None, *, quick: bool) -> list[Workload]:
    """Those of a list with commas between them, else the quick ones or all of them."""
    known = {workload.name: workload for workload in WORKLOADS}
    return _chosen("workload", names, known, [name for name, each in known.items() if each.quick or not quick])


def _chosen(what: str, names: str | None, known: Mapping[str, Named], usual: Sequence[str]) -> list[Named]:
    wanted = [name.strip() for name in names.split(",")] if names is not None else usual
    for name in wanted:
        if name not in known:
            raise InvalidInput(f"there is no {what} {name!r}; there are {', '.join(known)}")
    return [each for name, each in known.items() if name in wanted]
