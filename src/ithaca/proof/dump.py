"""What the directory of a stopped storage server holds, as the `final` event of a history.

The engine reads the directory (`Engine.stored_runs`), and changes nothing there. Damage is raised, and never left out.
"""

from collections.abc import Iterator

from ithaca.engines.registry import engine
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.errors import Corrupt
from ithaca.proof import payload
from ithaca.proof.history import Final, Id
from ithaca.storage.disk import Disk
from ithaca.wire.batch import Batch


class NoPayload(Corrupt):
    """The log takes a value for sound, and it is none that a client has appended."""


def dump_replica(disk: Disk, directory: str, node: str, engine_name: EngineName = DEFAULT_ENGINE) -> Final:
    """The records with their positions; `Corrupt` for damage, `NoPayload` for a value that is none."""
    found = [
        (run.position, _ids(run.batch, run.position, run.low, run.high, run.path))
        for run in engine(engine_name).stored_runs(disk, directory)
    ]
    return Final(node=node, runs=tuple((position, tuple(ids)) for position, ids in _joined(sorted(found))))


def held_ids(disk: Disk, directory: str, engine_name: EngineName = DEFAULT_ENGINE) -> set[Id]:
    """The ids of all records on the disk, those included that have no position there (yet)."""
    ids: set[Id] = set()
    for path, batch in engine(engine_name).held_batches(disk, directory):
        ids.update(_ids(batch, 1, 0, batch.count, path))
    return ids


def _ids(batch: Batch, position: int, low: int, high: int, path: str) -> list[Id]:
    ids: list[Id] = []
    for record in batch.records(position - low, 0, low, high):
        try:
            ids.append(payload.decode(record.value))
        except ValueError as error:
            raise NoPayload(f"the record at position {record.position}: {error}", file=path) from error
    return ids


def _joined(runs: list[tuple[int, list[Id]]]) -> Iterator[tuple[int, list[Id]]]:
    """The same with those put together that follow each other."""
    current: tuple[int, list[Id]] | None = None
    for position, ids in runs:
        if current is not None and current[0] + len(current[1]) == position:
            current[1].extend(ids)
            continue
        if current is not None:
            yield current
        current = position, list(ids)
    if current is not None:
        yield current
