"""What a store asks of its state, and how that is kept: functions of one position, that nobody waits for."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from ithaca.model.arguments import function, instance, whole
from ithaca.model.errors import Conflict, InvalidInput
from ithaca.model.paths import local_path
from ithaca.objects.kind import Kind
from ithaca.objects.settings import Options, Place
from ithaca.objects.store_state import KIND, StoreState, table_of
from ithaca.objects.store_tables import SqliteTable
from ithaca.objects.transaction import Transaction
from ithaca.objects.view import View

Returned = TypeVar("Returned")


class StoreKinds(NamedTuple):
    """How states are made: that of the store, and those that are played for a look at the past."""

    kept: Kind[StoreState]
    scratch: Kind[StoreState]


def store_kinds(state: Place | None, settings: Options) -> StoreKinds:
    """In memory, or in the SQLite file `state`."""
    memory = Kind(StoreState, StoreState, name=KIND)
    if state is None:
        return StoreKinds(memory, memory)
    if settings.get("snapshots") is not None:
        raise InvalidInput("a store in a file goes on from its file: leave snapshots out, or state")
    path = Path(local_path(state, "state"))
    return StoreKinds(Kind(lambda: StoreState(SqliteTable(path)), StoreState, name=KIND), memory)


def value_of(state: StoreState, key: bytes) -> bytes | None:
    """The value of a key, or None."""
    entry = table_of(state).get(key)
    return None if entry is None else entry.value


def values_of(keys: Sequence[bytes]) -> Callable[[StoreState], dict[bytes, bytes | None]]:
    """Asks for several keys."""
    return lambda state: {key: value_of(state, key) for key in keys}


def scanned(prefix: bytes, after: bytes | None, limit: int | None) -> Callable[[StoreState], list[tuple[bytes, bytes]]]:
    """Asks for the keys that begin so, in order: at most `limit` behind `after`."""
    instance(prefix, bytes, "prefix", "bytes")
    if after is not None:
        instance(after, bytes, "after", "a key, which is bytes")
    if limit is not None:
        whole(limit, "limit")

    def found(state: StoreState) -> list[tuple[bytes, bytes]]:
        items: list[tuple[bytes, bytes]] = []
        for key, entry in table_of(state).scan(prefix, after):
            if limit is not None and len(items) >= limit:
                break
            items.append((key, entry.value))
        return items

    return found


def copied(position: Callable[[], int]) -> Callable[[StoreState], View]:
    """Asks for everything, with the position that it is of."""
    return lambda state: View(StoreState.from_snapshot(state.to_snapshot()), position())


def tried(body: Callable[[Transaction], Returned]) -> Callable[[StoreState], tuple[Transaction, Returned]]:
    """Has `body` read and write."""
    function(body, "body")

    def on(state: StoreState) -> tuple[Transaction, Returned]:
        transaction = Transaction(state)
        return transaction, body(transaction)

    return on


def conflict(name: str, attempts: int) -> Conflict:
    """What a transaction fails with that was tried too often."""
    return Conflict(
        f"a transaction on {name} lost {attempts} times against others: try again, or "
        "have fewer at a time change the same keys"
    )
