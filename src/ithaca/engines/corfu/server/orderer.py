"""An orderer: a member of the Raft group that decides on projections, and the sequencer when it is its turn. Wiring
only.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import cached_property
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from ithaca.consumers.table import ConsumerChanges
from ithaca.engines.corfu.client.links import Links
from ithaca.engines.corfu.messages import SEQUENCER_CALLS, Decide
from ithaca.engines.corfu.sequencing.calls import GetProjection
from ithaca.engines.corfu.sequencing.commands import (
    Command,
    ConsumersTold,
    FoundLog,
    GetSession,
    GetSessions,
)
from ithaca.engines.corfu.sequencing.limits import COMMIT_TOLD_MS
from ithaca.engines.corfu.server.caretaking import Caretaker
from ithaca.engines.corfu.server.founding import founding
from ithaca.engines.corfu.server.machine import ProjectionMachine, encoded
from ithaca.engines.corfu.server.metrics import ORDERER, ORDERER_COUNTS, StatusMetrics, registry_of
from ithaca.engines.corfu.server.sequencing import Caller, SequencerService
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.consumers import ConsumerCommand, ConsumerOutcome
from ithaca.model.errors import IthacaError, ProtocolError, Unavailable
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.consumers import BeatGroup, ChangeConsumers, ConsumersChanged, GetConsumers, GetGroup
from ithaca.protocol.greeting import GetStatus, Redirect, StatusIs
from ithaca.raft.events import Role, RoleChanged
from ithaca.raft.messages import ServerId
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.machine import wall_us
from ithaca.runtime.raft.ports import Waiter
from ithaca.server.consumers import ConsumerDesk
from ithaca.server.options import ServerOptions
from ithaca.server.raft_host.hosting import HostingServer
from ithaca.server.raft_host.orderers import agreed_orderers
from ithaca.server.status import encode_status
from ithaca.storage.raft_files import RaftLogFiles

_log = logging.getLogger("ithaca.orderer")


class OrdererServer(HostingServer, Peer):
    """One orderer of a cluster. `start`, then `wait` until it is stopped or fails, then `stop`."""

    def __init__(
        self, file: ClusterFile, server: ServerId, directory: str, options: ServerOptions | None = None
    ) -> None:
        super().__init__(file, server, directory, options)
        self._machine = ProjectionMachine()
        self._links = Links([place.address for place in file.orderers], self._greeter.hello().tls)
        self._sequencer = SequencerService(server, self._links)
        units = [*(replica.address for shard in file.shards for replica in shard.replicas), *file.spares]
        self._caretaker = Caretaker(self._links, units, lambda: self._machine.state.founded is not None)
        self._founding: asyncio.Task[None] | None = None

    @cached_property
    def _consumers(self) -> ConsumerDesk:
        return ConsumerDesk(
            self._propose_consumers, lambda: self._machine.state.consumers, wall_us, self._file.consumer_idle_s
        )

    # Life

    async def _start(self) -> None:
        settings = replace(self._options.settings, commit_told_ms=COMMIT_TOLD_MS)
        self._open_host(self._machine, RaftLogFiles(), settings)
        await self._take_part(registry_of(StatusMetrics("orderer", ORDERER, ORDERER_COUNTS, self.status)))
        _log.info("orderer %d listens at %s", self._server, self.address)

    async def stop(self) -> None:
        """Stop cleanly: what is being written is finished. Idempotent."""
        if self._founding is not None:
            self._founding.cancel()
        self._consumers.end()
        await self._caretaker.close()
        await self._sequencer.close()
        await self._close_host()
        self._links.close()
        await self._close_listener()
        self._end()

    # What Raft tells

    def role_changed(self, change: RoleChanged) -> None:
        if self._founding is not None:
            self._founding.cancel()
            self._founding = None
        self._caretaker.lead(change.role is Role.LEADER)
        if change.role is Role.LEADER:
            self._consumers.begin()
        else:
            self._consumers.end()
        if change.role is Role.LEADER and self._machine.state.projection is None:
            self._founding = asyncio.create_task(self._found())

    def applied(self) -> None:
        known = self._machine.state.known
        if known is not None:
            self._sequencer.look(known)

    async def _found(self) -> None:
        entry = await founding(self._file, self._server, self._links)
        self._submit(entry, lambda outcome: _log.info("the log is founded: %s", type(outcome).__name__), _log_failure)

    def _submit(self, command: Command, done: Callable[[Any], None], failed: Callable[[IthacaError], None]) -> None:
        self.host.driver.submit(encoded(command), Waiter(done, failed))

    # Requests

    def on_message(self, connection: Connection, received: Received) -> None:
        message = received.message
        match message:
            case GetStatus():
                connection.answer(received, StatusIs(encode_status(self.status())))
            case Decide(FoundLog()):
                raise ProtocolError("a log is founded by its first leader alone")
            case Decide(ConsumerChanges()):
                raise ProtocolError("consumers are changed by ChangeConsumers, with what others ask for")
            case ChangeConsumers(commands):
                self._change_consumers(connection, received, commands)
            case GetConsumers() | BeatGroup() | GetGroup():
                self._when_leading(
                    connection, received, lambda _: self._consumers.answer(connection, received, message)
                )
            case Decide(command):
                self._decide(connection, received, command)
            case GetProjection():
                self._read(connection, received, lambda: self._machine.state.known)
            case GetSessions():
                self._read(connection, received, lambda: self._machine.state.sessions)
            case GetSession(producer):
                self._read(connection, received, lambda: self._machine.state.session(producer))
            case _ if isinstance(message, SEQUENCER_CALLS):
                self._sequencer.ask(Caller(connection, received), message)
            case _:
                raise ProtocolError(f"an orderer does not know {type(message).__name__}")

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        """Whoever is gone needs no answer."""

    def _change_consumers(
        self, connection: Connection, received: Received, commands: tuple[ConsumerCommand, ...]
    ) -> None:
        if not self.host.driver.is_leader:
            self._redirect(connection, received)
            return
        waiter = Waiter(
            lambda outcomes: connection.answer(received, ConsumersChanged(outcomes)),
            lambda error: connection.fail(received, error),
        )
        self._consumers.change(commands, waiter)

    def _propose_consumers(
        self,
        changes: ConsumerChanges,
        done: Callable[[tuple[ConsumerOutcome, ...]], None],
        failed: Callable[[IthacaError], None],
    ) -> None:
        def applied(outcome: object) -> None:
            if isinstance(outcome, ConsumersTold):
                done(outcome.outcomes)
            else:
                failed(Unavailable("the log is not founded yet: not all of its units have answered"))

        self._submit(changes, applied, failed)

    def _decide(self, connection: Connection, received: Received, command: Command) -> None:
        if self.host.driver.is_leader:
            self._submit(
                command,
                lambda outcome: connection.answer(received, outcome),
                lambda error: connection.fail(received, error),
            )
        else:
            self._redirect(connection, received)

    def _read(self, connection: Connection, received: Received, told: Callable[[], Message | None]) -> None:
        """Answer behind everything that was decided before the question came."""

        def done(_: object) -> None:
            answer = told()
            if answer is None:
                connection.fail(received, Unavailable("the log is not founded yet: not all of its units have answered"))
            else:
                connection.answer(received, answer)

        self._when_leading(connection, received, done)

    def _when_leading(self, connection: Connection, received: Received, done: Callable[[object], None]) -> None:
        """Once it is certain that this server led after the question had come."""
        if self.host.driver.is_leader:
            self.host.driver.submit_read(Waiter(done, lambda error: connection.fail(received, error)))
        else:
            self._redirect(connection, received)

    def _redirect(self, connection: Connection, received: Received) -> None:
        group = self.host.group
        connection.answer(received, Redirect(group.leader, agreed_orderers(group)))

    # What others learn of this server

    def status(self) -> dict[str, Any]:
        driver, known, core = self.host.driver, self._machine.state.known, self._sequencer.core
        projection = None if known is None else known.projection
        is_sequencer = projection is not None and projection.sequencer == self._server
        return {
            "role": "orderer",
            "name": str(self._server),
            "address": str(self.address),
            "state": self.host.group.state or ("leading" if driver.is_leader else "following"),
            "is_leader": driver.is_leader,
            "connections": 0 if self._listener is None else self._listener.connection_count,
            "tokens": core.given,
            "term": driver.term,
            "commit_index": driver.commit_index,
            "log": None if self._log_id() is None else str(self._log_id()),
            "epoch": None if projection is None else projection.epoch,
            "units": None if projection is None else [unit.number for unit in projection.units],
            "sequencer": None if projection is None else projection.sequencer,
            "is_sequencer": is_sequencer,
            "is_preparing": is_sequencer and self._sequencer.is_preparing,
            "next_row": core.next_row if is_sequencer else None,
            "short_chains": None if known is None else known.projection.short_chains(known.sizes),
            "start": None if projection is None else projection.start,
            "copying": self._caretaker.copying.told,
            "copied_rows": self._caretaker.copying.copied,
            "bound": None if known is None else known.bound,
            "first": None if known is None else known.trim,
        }

    def _log_id(self) -> UUID | None:
        founded = self._machine.state.founded
        return None if founded is None else founded.log

    def _peer_of(self, connection: Connection) -> Peer:
        return self


def _log_failure(error: IthacaError) -> None:
    _log.warning("the log was not founded by this leader: %s", error)
