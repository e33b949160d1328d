"""Keys and values on the log: a replica of `store_state`, with the operations of CORFU-Store and Scalog-Store."""

from collections.abc import Callable, Iterable
from typing import Self, TypeVar, Unpack

from ithaca.model.arguments import items, whole
from ithaca.model.interface.awaited.log import Log
from ithaca.model.units import Duration
from ithaca.objects.awaited.opening import Opening
from ithaca.objects.awaited.proposal import Proposal
from ithaca.objects.awaited.replica import Replica
from ithaca.objects.limits import STORE_ATTEMPTS_MAX
from ithaca.objects.settings import Options, Place, Settings
from ithaca.objects.shared.store import conflict, copied, scanned, store_kinds, tried, value_of, values_of
from ithaca.objects.store_state import StoreState, Writes
from ithaca.objects.transaction import Transaction, checked_key, checked_value, checked_writes
from ithaca.objects.view import Progress, View

Returned = TypeVar("Returned")


class Store(Opening):
    """A store of keys and values, each operation atomic over all its keys, in the order of the log.

    Reads are linearizable, unless `at_least` names a position from which on they may be: 0 reads what is here. State is
    in memory, or in the SQLite file `state`. `read_only` follows without ever appending: a mirror.

    >>> import asyncio, ithaca.aio, ithaca.objects.aio
    >>> async def main() -> bool:
    ...     async with ithaca.aio.open("./data") as log, ithaca.objects.aio.Store(log) as store:
    ...         position = await store.put_many({b"a": b"1", b"b": b"2"})
    ...         return await store.test_and_put({b"a": b"1"}, {b"a": b"3", b"b": None})
    >>> asyncio.run(main())
    True
    """

    def __init__(
        self, log: Log, name: str = "store", *, state: Place | None = None, **settings: Unpack[Options]
    ) -> None:
        kind, scratch = store_kinds(state, settings)
        self._replica = Replica(log, kind, name=name, settings=Settings(**settings), scratch=scratch)

    def __repr__(self) -> str:
        return repr(self._replica).replace("Replica", "Store", 1)

    # Life

    async def open(self) -> Self:
        """Play the log up to its tail, and follow it from then on."""
        await self._replica.open()
        return self

    async def close(self) -> None:
        """Follow no more. The log stays open. Idempotent."""
        await self._replica.close()

    # Reads

    async def get(self, key: bytes, *, at_least: int | None = None) -> bytes | None:
        """The value of a key, or None."""
        return (await self.get_many((key,), at_least=at_least))[key]

    async def get_many(self, keys: Iterable[bytes], *, at_least: int | None = None) -> dict[bytes, bytes | None]:
        """The values of several keys, all of one position."""
        wanted = [checked_key(key) for key in items(keys, "keys", 'a list of keys, such as [b"a", b"b"]')]
        await self._freshened(at_least)
        return self._replica.look(values_of(wanted))

    def local_get(self, key: bytes) -> bytes | None:
        """The value that the key has here, at once."""
        checked_key(key)
        return self._replica.local(lambda state: value_of(state, key))

    async def scan(
        self, prefix: bytes = b"", *, after: bytes | None = None, limit: int | None = None, at_least: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        """The keys that begin so, with their values, in order and of one position: at most `limit` behind `after`."""
        found = scanned(prefix, after, limit)
        await self._freshened(at_least)
        return self._replica.look(found)

    async def view(self) -> View:
        """A copy of everything as it is now, which never changes: a consistent snapshot."""
        await self._freshened(None)
        return self._replica.look(copied(lambda: self._replica.position))

    async def as_of(self, position: int) -> View:
        """Everything as it was behind the record at `position`, played again from the log.

        It takes as long as playing what stands between the newest snapshot before it and the position.
        """
        return View(await self._replica.as_of(position), position + 1)

    async def progress(self) -> Progress:
        """How far this store has come, and how far the log is."""
        tail = await self._replica.log.tail()
        self._replica.check()
        return Progress(self._replica.position, tail, self._replica.time_us)

    async def sync(self, *, timeout: Duration | None = None) -> int:
        """Wait until everything that was acknowledged before this call is applied; returns the tail at that time."""
        return await self._replica.sync(timeout=timeout)

    # Writes

    async def put(self, key: bytes, value: bytes) -> int:
        """Put one key; returns the position at which it stands."""
        return await self.put_many({key: checked_value(value)})

    async def delete(self, *keys: bytes) -> int:
        """Have no such keys; returns the position from which on that is so."""
        return await self.put_many(dict.fromkeys(keys))

    async def put_many(self, writes: Writes) -> int:
        """Put all of these keys at once, None deleting one; returns the position at which they stand."""
        return await self._replica.propose(StoreState.put, checked_writes(writes))

    async def submit_many(self, writes: Writes) -> Proposal[int]:
        """`put_many` without waiting for its position."""
        return await self._replica.submit(StoreState.put, checked_writes(writes))

    async def test_and_put(self, expected: Writes, writes: Writes) -> bool:
        """Put all of these keys if those have the expected values (None: there is no such key); whether it was so."""
        position = await self._replica.propose(
            StoreState.test_and_put, checked_writes(expected), checked_writes(writes)
        )
        return position > 0

    async def transact(self, body: Callable[[Transaction], Returned]) -> Returned:
        """Have `body` read and write, and commit that if nothing it has read changed meanwhile; else have it again.

        `body` sees all keys at one position, must not wait, and may be called several times. What it returns is
        returned; what it raises is raised, and nothing is written. `Conflict` after too many attempts.
        """
        trying = tried(body)
        for _ in range(STORE_ATTEMPTS_MAX):
            await self._freshened(None)
            transaction, returned = self._replica.look(trying)
            if not transaction.writes:
                return returned
            if await self._replica.propose(StoreState.commit, transaction.reads, transaction.scans, transaction.writes):
                return returned
        raise conflict(self._replica.name, STORE_ATTEMPTS_MAX)

    # Snapshots

    async def snapshot(self) -> int:
        """Take a snapshot now, where the settings say; returns its position."""
        return await self._replica.snapshot()

    async def _freshened(self, at_least: int | None) -> None:
        if at_least is None:
            await self._replica.sync()
        else:
            await self._replica.caught_up(whole(at_least, "at_least"))
