"""What must hold of the servers of this engine, looked at whenever something has happened to one (docs/proof.md)."""

from uuid import UUID

from ithaca.engines.corfu.sequencing.entries import JUNK, entry_of
from ithaca.engines.corfu.sequencing.projection import Projection
from ithaca.engines.corfu.sequencing.rows import row_of
from ithaca.engines.corfu.sequencing.state import ProjectionState
from ithaca.engines.corfu.sequencing.unit import RowChange
from ithaca.engines.corfu.server.orderer import OrdererServer
from ithaca.engines.corfu.server.unit import UnitServer
from ithaca.model.view import Replica, Shard, View
from ithaca.proof.history import Deliver, Range, Read
from ithaca.sim.corfu.row_times import RowTimes
from ithaca.sim.corfu.rows import AllRows
from ithaca.sim.host import Host
from ithaca.sim.violation import Violation
from ithaca.sim.world import World
from ithaca.wire.batch import NOOPS


def orderer_of(host: Host) -> OrdererServer | None:
    """The orderer that runs here, once it has recovered."""
    server = host.server
    return server if host.is_up and isinstance(server, OrdererServer) and server._host is not None else None


def unit_of(host: Host) -> UnitServer | None:
    """The unit that runs here, once it has recovered."""
    server = host.server
    return server if host.is_up and isinstance(server, UnitServer) and server._unit is not None else None


class Invariants:
    """Remembers what was seen of every server, and compares."""

    def __init__(self, world: World, rows: AllRows, times: RowTimes) -> None:
        self._world = world
        self._rows = rows
        self._times = times
        self._states: dict[int, tuple[bytes, str]] = {}
        """By the entry that was applied last: what it adds up to, and who said so."""
        self._applied: dict[str, tuple[int, int]] = {}
        """Of each orderer its life, and the entry that was looked at last."""
        self._lives: dict[str, int] = {}
        self._events = self._acknowledged = 0
        self.newest = ProjectionState()
        """The state of whoever has applied most."""

    @property
    def projection(self) -> Projection | None:
        return self.newest.projection

    def check(self, host: Host) -> None:
        orderer, unit = orderer_of(host), unit_of(host)
        if orderer is not None:
            self._state(host, orderer._machine.state)
        if unit is not None and self._lives.get(host.name) != host.lives:
            self._lives[host.name] = host.lives
            self._recovered(host, unit)
        self._told()
        for row in self._rows.new_complete:
            problem = None if self._rows.complete[row] is None else self._times.wrote(row)
            if problem is not None:
                raise Violation("one-order", problem)
        self._rows.new_complete.clear()

    # What Raft has

    def _state(self, host: Host, state: ProjectionState) -> None:
        """Entries are one log: whoever has applied the same has the same state, however it came by it."""
        if self._applied.get(host.name) == (host.lives, state.index):
            return
        self._applied[host.name] = host.lives, state.index
        has = state.snapshot()
        known, who = self._states.setdefault(state.index, (has, host.name))
        if known != has:
            raise Violation("one-order", f"after entry {state.index} {host.name} has another state than {who}")
        if state.index > self.newest.index:
            before, self.newest = self.newest, ProjectionState.restored(has)
            self._followed(before, self.newest)

    def _followed(self, before: ProjectionState, after: ProjectionState) -> None:
        """Each projection follows one: rows are never given twice, and units that went never return."""
        old, new = before.projection, after.projection
        if new is None:
            return
        self._world.ordered.first = max(self._world.ordered.first, after.trim)
        if old is not None and new.epoch == old.epoch + 1:
            if new.start < before.bound:
                raise Violation("new-rows", f"epoch {new.epoch} begins at {new.start}, and {before.bound} was granted")
            returned = [u.number for u in new.units if u.number <= before.unit_last and old.member(u.number) is None]
            if returned:
                raise Violation("new-units", f"unit {returned[0]} is back in epoch {new.epoch}")
        if new.is_begun and (old is None or (old.epoch, old.is_begun) != (new.epoch, True)):
            self._rows.check_settled(new)
        if old is None or new.epoch > old.epoch:
            self._rows.check_projection(new, row_of(after.trim))
            self._world.view = self._view(new)
            self._spare_the_last(new)

    def _view(self, projection: Projection) -> View:
        """As the world knows clusters: so that no more disks are destroyed than chains can do without."""
        size = self._world.configuration.replicas
        shards = []
        for number, chain in enumerate(projection.ranges[-1].sets):
            left = [unit for unit in chain if all(unit in each.sets[number] for each in projection.ranges if each.sets)]
            members = [member for unit in left if (member := projection.member(unit)) is not None]
            replicas = tuple(Replica(member.number, member.address) for member in members)
            shards.append(Shard(number, size - 1, False, replicas, projection.units[-1].number))
        return View(shards=tuple(shards))

    def sealed(self, epoch: int) -> None:
        """A unit has sealed an epoch: until the next one is decided nobody knows whom it leaves out, so that no disk
        can be done without."""
        if self.projection is not None and self.projection.epoch == epoch:
            self._world.view = View()

    def _spare_the_last(self, projection: Projection) -> None:
        """A disk that is about to fail was one of several when that was drawn: the only one of a chain does not."""
        hosts = {host.address: host for host in self._world.hosts.values() if host.is_storage}
        for chain in projection.chains():
            members = [member for unit in chain if (member := projection.member(unit)) is not None]
            disks = [hosts[member.address.host].disk for member in members]
            if disks and all(disk.will_fail_sync for disk in disks):
                disks[-1].fail_no_sync()

    # What units have

    def _recovered(self, host: Host, server: UnitServer) -> None:
        """What was synced is there after any end of a process."""
        store = server._store
        assert store is not None
        known, state = self._rows.unit(store.identity), store.state
        if (state.epoch, state.is_sealed) < known.epoch:
            raise Violation("sealed", f"{host.name} has forgotten that it was in epoch {known.epoch}")
        if (state.trims.below, state.trims.first) < (known.trims.below, known.trims.first):
            raise Violation("trimmed", f"{host.name} has forgotten what was trimmed before {known.trims.first}")
        for row in known.rows:
            if row not in store.state.trims and row not in store.rows:
                raise Violation("synced-rows", f"row {row} was on the disk of {host.name}, and is not after a start")
        for row, time_us, batch in store.placed_rows():  # its end may have come before it could tell of a sync
            content = JUNK if batch.kind == NOOPS else entry_of(batch, time_us)
            if content.stamp is not None:
                self._times.wrote_first(row, time_us)
            self._rows.noted(store.identity, RowChange(row, content), self.projection)

    def identity_of(self, host: Host) -> UUID | None:
        server = unit_of(host)
        return None if server is None or server._store is None else server._store.identity

    def is_member(self, host: Host) -> bool:
        """Whether the disk of this host is a unit of the newest projection."""
        identity, projection = self.identity_of(host), self.projection
        return projection is not None and any(unit.identity == identity for unit in projection.units)

    # What clients were told

    def scanned(self, position: int) -> None:
        """A scan was given the row at this position."""
        if self.projection is not None:
            self._is_complete(self.projection, position, "scanned")

    def _told(self) -> None:
        """Only what is complete is acknowledged, or read."""
        recorder, projection = self._world.recorder, self.projection
        if projection is None:
            return
        if recorder.acknowledged > self._acknowledged:
            self._acknowledged = recorder.acknowledged
            for _, position in list(recorder.placed.values())[-recorder.acknowledged :][-64:]:
                self._is_complete(projection, position, "acknowledged")
        events = recorder.events
        for event in events[self._events :]:
            match event:
                case Deliver():
                    self._is_complete(projection, event.pos, "delivered")
                case Read() if isinstance(event.id, tuple):
                    self._is_complete(projection, event.pos, "read")
                case Range():
                    for position, _ in event.ids[:1] + event.ids[-1:]:
                        self._is_complete(projection, position, "read in a range")
        self._events = len(events)

    def _is_complete(self, projection: Projection, position: int, told: str) -> None:
        row = row_of(position)
        if position >= self._world.recorder.trimmed and not self._rows.is_complete(projection, row):
            raise Violation("complete", f"row {row} was {told}, and is not on its whole chain")
