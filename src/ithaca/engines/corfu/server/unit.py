"""A unit as a server: calls in, answers out. Decisions are `sequencing.unit`'s."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

from ithaca.engines.corfu.messages import GetIdentity, IdentityIs, Renew, heard_call, said_answer
from ithaca.engines.corfu.sequencing.calls import GetProjection, RowHolds
from ithaca.engines.corfu.sequencing.unit import Asked, Persist, Reply, ReplyHeld, Synced, Unit, UnitEffect
from ithaca.engines.corfu.server.unit_disk import UnitDisk
from ithaca.engines.corfu.storage.unit_store import META, UnitStore, clear, create
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import IthacaError, StorageFull, Unavailable
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address, Orderers
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, GetStatus, Hello, Redirect, StatusIs, Welcome
from ithaca.runtime import machine
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.listener import HttpAnswer, Listener, listen
from ithaca.server.status import answer_http, encode_status
from ithaca.storage.directory_lock import take_lock
from ithaca.storage.disk import Disk, OsDisk, OsFile

_log = logging.getLogger("ithaca.unit")


class _Caller(NamedTuple):
    connection: Connection
    request: Received


class UnitServer(Peer):
    """One unit. `start`, then `wait` until it is stopped or fails, then `stop`."""

    def __init__(
        self,
        file: ClusterFile,
        place: ServerPlace,
        directory: str,
        *,
        disk: Disk | None = None,
        listen_at: Address | None = None,
    ) -> None:
        self._file = file
        self._place = place
        self._directory = directory
        self._disk = disk or OsDisk()
        self._listen_at = listen_at or place.address
        self._lock: OsFile | None = None
        self._listener: Listener | None = None
        self._unit: Unit[_Caller] | None = None
        self._store: UnitStore | None = None
        self._writer: UnitDisk | None = None
        self._is_full = False
        self._renewing: asyncio.Task[None] | None = None
        """While it forgets everything."""
        self._ended = asyncio.Event()
        self._error: Exception | None = None

    # Life

    @property
    def address(self) -> Address:
        return self._listen_at if self._listener is None else self._listener.address

    async def start(self) -> None:
        """Recover the disk and listen."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        _log.info("unit %s listens at %s", self._place.name, self.address)

    async def _start(self) -> None:
        self._disk.make_directory(self._directory)
        if isinstance(self._disk, OsDisk):  # a simulated disk belongs to whoever made it
            self._lock = take_lock(self._disk, self._directory, "stop that server first")
        self._open_store()
        self._listener = await listen(self._listen_at, accept=self._accept, welcome=self._welcome, http=self._http)

    def _open_store(self) -> None:
        if not self._disk.exists(f"{self._directory}/{META}"):
            create(self._disk, self._directory, machine.new_uuid())
        store = self._store = UnitStore(self._disk, self._directory, segment_bytes=self._file.segment_bytes)
        self._unit = Unit(store.identity, store.state, store.rows)
        self._is_full = False
        self._writer = UnitDisk(
            store,
            loop=asyncio.get_running_loop(),
            on_synced=self._synced,
            on_full=self._found_full,
            on_failed=self._failed,
        )

    async def stop(self) -> None:
        """Stop cleanly: what was accepted is written. Idempotent."""
        if self._renewing is not None:
            await asyncio.gather(self._renewing, return_exceptions=True)
        if self._listener is not None:
            await self._listener.close()
        try:
            if self._writer is not None:
                await self._writer.close()
        finally:
            if self._lock is not None:
                self._lock.close()
                self._lock = None
            self._ended.set()

    async def wait(self) -> None:
        """Until the server has stopped; raises what made it fail."""
        await self._ended.wait()
        if self._error is not None:
            raise self._error

    def _failed(self, error: Exception) -> None:
        self._error = error
        self._ended.set()

    # Calls

    def on_message(self, connection: Connection, received: Received) -> None:
        if self._renewing is not None:
            raise Unavailable(f"unit {self._place.name} begins anew: try again")
        assert self._unit is not None
        assert self._store is not None
        match received.message:
            case GetStatus():
                connection.answer(received, StatusIs(encode_status(self.status())))
            case GetIdentity():
                connection.answer(received, IdentityIs(self._store.identity, self._unit.epoch > 0))
            case Renew(identity) if identity == self._store.identity:
                self._renewing = asyncio.create_task(self._renew(connection, received))
            case Renew():
                connection.answer(received, IdentityIs(self._store.identity, self._unit.epoch > 0))
            case GetProjection():
                orderers = Orderers(0, tuple(place.address for place in self._file.orderers))
                connection.answer(received, Redirect(None, orderers))
            case message:
                call = heard_call(message, bytes(received.payload))
                if self._is_full and len(received.payload):
                    connection.fail(received, StorageFull(f"no space is left at unit {self._place.name}: free some"))
                else:
                    self._perform(self._unit.step(Asked(_Caller(connection, received), call)))

    async def _renew(self, connection: Connection, received: Received) -> None:
        """Begin with nothing, as another unit."""
        assert self._writer is not None
        try:
            await self._writer.close()
            clear(self._disk, self._directory)
            self._open_store()
        except Exception as error:
            self._failed(error)
            return
        assert self._store is not None
        self._renewing = None
        _log.info("unit %s was removed, and begins anew as %s", self._place.name, self._store.identity)
        connection.answer(received, IdentityIs(self._store.identity))

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        """What was accepted is written all the same."""

    def _synced(self, number: int) -> None:
        assert self._unit is not None
        self._perform(self._unit.step(Synced(number)))

    def _found_full(self, is_full: bool) -> None:
        self._is_full = is_full

    def _perform(self, effects: Iterable[UnitEffect[_Caller]]) -> None:
        assert self._unit is not None
        assert self._writer is not None
        assert self._store is not None
        for effect in effects:
            match effect:
                case Persist():
                    self._writer.persist(effect)
                case Reply(caller, answer):
                    caller.connection.answer(caller.request, *said_answer(answer))
                case ReplyHeld(caller, row):
                    caller.connection.answer(
                        caller.request, *said_answer(RowHolds(self._store.read(row), self._unit.state.trims.first))
                    )

    # What others learn of this server

    def status(self) -> dict[str, Any]:
        assert self._unit is not None, "a server has a status once it was started"
        assert self._store is not None
        unit, state = self._unit, self._unit.state
        return {
            "role": "replica",
            "name": self._place.name,
            "address": str(self.address),
            "state": "full" if self._is_full else "sealed" if unit.is_sealed else "serving",
            "identity": str(unit.identity),
            "epoch": unit.epoch,
            "rows": len(self._store.rows),
            "highest_row": state.highest,
            "trimmed_below": state.trims.below,
            "trimmed_ranges": len(state.trims.ranges),
            "unsynced_writes": unit.writes,
        }

    def _welcome(self) -> Welcome:
        return Welcome(
            VERSION_MAX,
            "replica",
            self._place.name,
            FEATURES,
            durability=self._file.durability,
            engine=self._file.engine,
        )

    def _accept(self, connection: Connection, hello: Hello) -> Peer:
        return self

    def _http(self, path: str) -> HttpAnswer | None:
        return answer_http(path, self.status)
