"""What must hold of the servers of this engine, looked at whenever something has happened to one (docs/proof.md)."""

from ithaca.engines.raft.server.server import RaftServer
from ithaca.model.positions import position_of
from ithaca.raft.messages import Configuration
from ithaca.sim.host import Host
from ithaca.sim.violation import Violation
from ithaca.sim.world import World
from ithaca.wire.batch import NOOPS


def server_of(host: Host) -> RaftServer | None:
    """The server that runs here, once it has recovered."""
    server = host.server
    return server if host.is_up and isinstance(server, RaftServer) and server._is_started else None


class Invariants:
    """Remembers what was seen of every server, and compares."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._batches: dict[int, tuple[int, bytes, str]] = {}
        """What is agreed on, by LSN: where the batch ends, its head, and who said so."""
        self._states: dict[int, tuple[tuple[object, ...], str]] = {}
        """By the entry that was applied last: what it adds up to, and who said so."""
        self._last: dict[str, tuple[int, int, int, int]] = {}
        """Of each host: its life, its cursor, its first position, and up to where its bytes were looked at."""
        self._time_us = 0
        self._newest = (0, Configuration())
        """The members as they were agreed last, and up to where."""

    @property
    def members(self) -> Configuration:
        return self._newest[1]

    def check(self, host: Host) -> None:
        server = server_of(host)
        if server is None or server._store is None:
            return
        self._same_state(host, server)
        self._cursor(host, server)
        self._is_woken(host, server)
        driver = server.host.driver
        if driver.commit_index >= self._newest[0] and driver.agreed_configuration.voters:
            self._newest = driver.commit_index, driver.agreed_configuration

    def _same_state(self, host: Host, server: RaftServer) -> None:
        """Entries are one log: whoever has applied the same has the same state, however it came by it."""
        state, index = server.machine.state, server.host.driver.applied_index
        sessions = state.sessions
        has = (state.length, state.trim_lsn, len(sessions), sessions.next_producer_id)
        known, who = self._states.setdefault(index, (has, host.name))
        if known != has:
            said = f"after entry {index} length, trim, sessions and the next producer are {known} at {who}"
            raise Violation("one-order", f"{said} and {has} at {host.name}")

    def _cursor(self, host: Host, server: RaftServer) -> None:
        """Below the cursor all bytes are here, on the disk, and those of everybody; the cursor never falls."""
        state, store = server.machine.state, server.store
        life, length, first, checked = self._last.get(host.name, (0, 0, 0, 0))
        if life != host.lives:
            length = first = checked = 0
        if state.length < length or state.first < first:
            raise Violation("monotone", f"{host.name} fell from {(length, first)} to {(state.length, state.first)}")
        if store.lane.length < state.length:
            raise Violation("cursor", f"{host.name} serves up to LSN {state.length}, and has {store.lane.length}")
        if server.read_view.limit > state.tail:
            raise Violation(
                "cursor", f"{host.name} serves positions up to {server.read_view.limit}, beyond {state.tail}"
            )
        if state.length > checked:
            self._same_bytes(host, server, checked)
        self._world.ordered.first = max(self._world.ordered.first, state.first)
        self._last[host.name] = host.lives, state.length, state.first, state.length

    def _same_bytes(self, host: Host, server: RaftServer, start: int) -> None:
        """A range is its bytes, too: what is agreed on is the same everywhere, for ever."""
        length = server.machine.state.length
        for batch in server.store.read(start, length):
            if batch.kind == NOOPS or batch.end_lsn <= start:
                continue
            has = batch.end_lsn, bytes(batch.head[4:])
            known = self._batches.setdefault(batch.base_lsn, (*has, host.name))
            if known[:2] != has:
                said = f"the batch that is agreed on at LSN {batch.base_lsn} ends at {known[0]} at {known[2]}"
                raise Violation("one-log", f"{said}, and at {has[0]} or is another one at {host.name}")
            if batch.end_lsn > length:
                raise Violation("whole-batches", f"{host.name} serves up to LSN {length}, in the middle of a batch")
            if position_of(batch.end_lsn) > self._world.ordered.tail:
                self._time_us = max(self._time_us, batch.timestamp_us)
                self._world.ordered.add(position_of(batch.end_lsn), self._time_us, server.machine.state.first)

    def _is_woken(self, host: Host, server: RaftServer) -> None:
        """Nobody waits for what is there."""
        waits = server.read_view.readable.waits
        if waits.first is not None and waits.first < server.read_view.limit:
            raise Violation("woken", f"{host.name} lets somebody wait for {waits.first}, and is beyond it")
