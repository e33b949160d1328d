"""A unit as a server: calls in, answers out. Decisions are `sequencing.unit`'s."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

from ithaca.engines.corfu.messages import GetIdentity, IdentityIs, Renew, heard_call, said_answer
from ithaca.engines.corfu.sequencing.calls import (
    GetProjection,
    LocateRows,
    ReadRows,
    RowHolds,
    RowLocations,
    RowsHold,
    RowWritten,
)
from ithaca.engines.corfu.sequencing.unit import (
    Asked,
    Persist,
    Reply,
    ReplyHeld,
    ReplyRange,
    StartWait,
    Synced,
    Unit,
    UnitEffect,
    WaitOver,
)
from ithaca.engines.corfu.server.metrics import UNIT, UNIT_COUNTS, StatusMetrics, registry_of
from ithaca.engines.corfu.server.unit_disk import UnitDisk
from ithaca.engines.corfu.storage.unit_store import META, UnitStore, clear, create
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import IthacaError, StorageFull, Unavailable
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Orderers
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import GetStatus, Redirect, StatusIs
from ithaca.runtime import machine
from ithaca.runtime.connection import Connection, Peer
from ithaca.server.greeter import Greeter
from ithaca.server.life import LivingServer, lock_directory
from ithaca.server.options import ServerOptions
from ithaca.server.status import encode_status

_log = logging.getLogger("ithaca.unit")


class _Caller(NamedTuple):
    connection: Connection
    request: Received


class UnitServer(LivingServer, Peer):
    """One unit. `start`, then `wait` until it is stopped or fails, then `stop`."""

    def __init__(
        self, file: ClusterFile, place: ServerPlace, directory: str, options: ServerOptions | None = None
    ) -> None:
        options = options or ServerOptions()
        super().__init__(options.listen_at or place.address)
        self._file = file
        self._place = place
        self._directory = directory
        self._disk = options.disk
        self._unit: Unit[_Caller] | None = None
        self._store: UnitStore | None = None
        self._writer: UnitDisk | None = None
        self._is_full = False
        self._renewing: asyncio.Task[None] | None = None
        """While it forgets everything."""
        self._written_rows = self._read_rows = self._received_bytes = self._sent_bytes = 0

    # Life

    async def _start(self) -> None:
        self._lock = lock_directory(self._disk, self._directory)
        self._open_store()
        registry = registry_of(StatusMetrics("unit", UNIT, UNIT_COUNTS, self.status))
        await self._listen(Greeter(self._file, "replica", self._place.name), lambda *_: self, registry)
        _log.info("unit %s listens at %s", self._place.name, self.address)

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
            on_failed=self.failed,
        )

    async def stop(self) -> None:
        """Stop cleanly: what was accepted is written. Idempotent."""
        if self._renewing is not None:
            await asyncio.gather(self._renewing, return_exceptions=True)
        await self._close_listener()
        try:
            if self._writer is not None:
                await self._writer.close()
        finally:
            self._end()

    # Calls

    def on_message(self, connection: Connection, received: Received) -> None:
        if self._renewing is not None:
            raise Unavailable(f"unit {self._place.name} begins again: try again")
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
                self._received_bytes += len(received.payload)
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
            self.failed(error)
            return
        assert self._store is not None
        self._renewing = None
        _log.info("unit %s was removed, and begins again as %s", self._place.name, self._store.identity)
        connection.answer(received, IdentityIs(self._store.identity))

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        """What was accepted is written all the same."""

    def _synced(self, number: int) -> None:
        assert self._unit is not None
        self._perform(self._unit.step(Synced(number)))

    def _end_wait(self, unit: Unit[_Caller], reader: int) -> None:
        if unit is self._unit and self._renewing is None:
            self._perform(unit.step(WaitOver(reader)))

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
                    self._written_rows += isinstance(answer, RowWritten)
                    caller.connection.answer(caller.request, *said_answer(answer))
                case ReplyHeld(caller, row):
                    entry = self._store.read(row)
                    self._read_rows += 1
                    self._sent_bytes += 0 if entry.batch is None else entry.batch.total_bytes
                    held = RowHolds(entry, self._unit.state.trims.first, self._unit.state.highest)
                    caller.connection.answer(caller.request, *said_answer(held))
                case StartWait(reader, ms):
                    asyncio.get_running_loop().call_later(ms / 1000, self._end_wait, self._unit, reader)
                case ReplyRange(caller, LocateRows() as call, up_to):
                    caller.connection.answer(caller.request, self._locations(self._store, call, up_to))
                case ReplyRange(caller, ReadRows() as call, up_to):
                    caller.connection.answer(caller.request, *said_answer(self._stretch(self._store, call, up_to)))

    def _stretch(self, store: UnitStore, call: ReadRows, up_to: int) -> RowsHold:
        rows, up_to = store.read_some(call.start, up_to, call.step, call.bytes_max)
        self._read_rows += len(rows)
        self._sent_bytes += sum(entry.batch.total_bytes for _, entry in rows if entry.batch is not None)
        return RowsHold(up_to, tuple(rows), store.state.trims.first, store.state.highest)

    def _locations(self, store: UnitStore, call: LocateRows, up_to: int) -> RowLocations:
        first = store.state.trims.first
        if call.machine != machine.machine_name():
            return RowLocations(up_to, first)
        rows, lsns = store.located(call.start, up_to, call.step)
        return RowLocations(up_to, first, *machine.place_of(store.lane.directory), tuple(rows), tuple(lsns))

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
            "waiting_readers": unit.readers,
            "is_sealed": unit.is_sealed,
            "written_rows": self._written_rows,
            "read_rows": self._read_rows,
            "received_bytes": self._received_bytes,
            "sent_bytes": self._sent_bytes,
            "connections": 0 if self._listener is None else self._listener.connection_count,
        }
