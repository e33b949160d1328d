"""What must hold of the order and of the replicas after every single step; docs/proof.md lists the rules by name.

Cheap on purpose: only the server to which something has just happened is looked at.
"""

from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.server.orderer.server import OrdererServer
from ithaca.engines.scalog.server.replica.server import ReplicaServer
from ithaca.engines.scalog.server.replica.spare import SpareServer
from ithaca.engines.scalog.storage.settled import SettledLanes
from ithaca.model.positions import LaneId
from ithaca.model.view import Shard
from ithaca.sim.host import Host, HostDisk
from ithaca.sim.scalog.hosts import replica_of
from ithaca.sim.violation import Violation
from ithaca.sim.world import World


class Invariants:
    """Remembers what was seen of every server, and compares."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tails: dict[int, tuple[int, str]] = {}
        """By the number of a cut: the tail after it, and who said so."""
        self._states: dict[int, tuple[tuple[int, ...], str]] = {}
        """By the index of an entry: what the state is after it, and who said so."""
        self._last: dict[str, tuple[int, int, int, int]] = {}
        """Of each host: its life, and what must not fall during one."""
        self._synced: dict[LaneId, dict[str, int]] = {}
        """Of each lane: how much of it each replica had on its disk at some time."""
        self._due: dict[LaneId, int] = {}
        """How much of each lane was ordered, or sealed, when that was last looked at."""
        self._members: dict[int, set[str]] = {}
        """The hosts of each shard when that was last looked at."""
        self._removed_at: dict[str, int] = {}
        """Of each host whose replica knows that it was removed: how far it could be read then."""
        self._newest = 0
        """The last entry that any orderer has applied."""
        self._seen: dict[str, tuple[int, int]] = {}
        """Of each orderer: its life, and the last entry that was looked at."""
        self._final_lengths: dict[LaneId, int] = {}
        self._final: set[int] = set()
        """The shards that are finalized."""
        self._ends: dict[int, int] = {}
        """Behind the last position that closed lanes of each shard have had."""
        self._runs: dict[int, dict[str, int]] = {}
        """Of each shard: the last cut up to which each replica had the positions on its disk."""
        self._taken: dict[tuple[str, int], int] = {}
        """Of each life of a replica of a finalized shard: what it had taken into its lane by then."""
        self._state: OrderingState | None = None
        """The newest that an orderer has applied."""
        self._copies: dict[str, tuple[HostDisk, set[LaneId]]] = {}
        """Of each host: its disk, and the lanes that have been on it with records."""
        self._had: dict[tuple[str, int], tuple[int, dict[LaneId, int]]] = {}
        """Of each disk of a replica: the life in which it was looked at last, and what was synced of each lane then."""
        self._packed: dict[str, tuple[SettledLanes, dict[LaneId, int]]] = {}
        """Of each host: what its store has in packs, and how long each of these lanes is."""
        self._hosts = {host.name: host for host in world.hosts.values()}

    def runs_synced(self, shard: int, cut: int) -> int:
        """How many replicas of the shard have had the positions of this cut, and of all before, on their disks."""
        return sum(synced >= cut for synced in self._runs.get(shard, {}).values())

    def check(self, host: Host) -> None:
        """Something has happened to this server."""
        server = host.server
        if isinstance(server, OrdererServer):
            self._check_orderer(host, server)
            return
        replica = replica_of(host)
        if replica is not None:
            self._is_as_written(host, replica)
            self._check_replica(host, replica)
        if replica is not None or (isinstance(server, SpareServer) and server.is_waiting):
            self._keeps_its_lanes(host, replica)

    def _check_orderer(self, host: Host, server: OrdererServer) -> None:
        driver = server._driver
        if driver is None:
            return
        state = server._machine.state
        if state.shards.version > self._world.view.version:
            self._world.view = state.view
        self._same_tail(host, state.cut_number, state.tail)
        if state.index > self._newest:
            self._newest = state.index
            self._state = state
            self._is_synced(state)
        self._never_falls(host, (host.lives, driver.term, driver.commit_index, state.tail))
        if self._seen.get(host.name) != (host.lives, state.index):
            self._seen[host.name] = host.lives, state.index
            self._same_state(host, state)
            self._same_ends(host, state)
        if state.first > state.tail:
            raise Violation("trim-bound", f"{host.name} has trimmed to {state.first}, beyond the tail {state.tail}")

    def _is_synced(self, state: OrderingState) -> None:
        """What is ordered now of a lane, or sealed of a part, was synced by f + 1 of the replicas of its shard."""
        for shard in state.view.shards:
            present = {each.address.host for each in shard.replicas}
            members = present | self._members.get(shard.shard, present)  # it may be from before they changed
            self._members[shard.shard] = present
            due = {lane: state.lanes.ordered_length(lane) or 0 for lane in shard.open_lanes()}
            for lane, length in (due | state.parts.sealed_lengths(shard.shard)).items():
                if length > self._due.get(lane, 0):
                    self._due[lane] = length
                    self._is_held(shard, lane, length, members)

    def _is_held(self, shard: Shard, lane: LaneId, length: int, members: set[str]) -> None:
        known = self._synced.get(lane, {})
        lengths = (known[name] for name in known if self._hosts[name].address in members)
        synced = sorted(lengths, reverse=True)[: shard.copies]
        if length > (synced[-1] if len(synced) == shard.copies else 0):
            said = f"{length} records of {'part' if lane.is_part else 'lane'} {lane} are agreed on"
            raise Violation("synced-first", f"{said}, and the {shard.copies} that synced most synced {synced}")

    def _is_as_written(self, host: Host, server: ReplicaServer) -> None:
        """What a core says that it wrote is what its store has: no effect was left out, none failed half-way."""
        packed = self._packed_lengths(host, server)
        for lane, copy in server.core._lanes.items():
            if not copy.is_ready:
                continue
            held = server.store.lanes.get(lane)
            if held is None and not (copy.is_settling and lane in packed):
                raise Violation("as-written", f"{host.name} takes lane {lane} for present, and its store has none")
            if held is not None and held.is_written and held.opened_lane is None:
                raise Violation("as-written", f"{host.name} has closed lane {lane}, which is being written to")
            length, runs_end = _lengths(server, packed, lane)
            length = copy.durable if length is None else length
            runs_end = copy.runs_end if runs_end is None else runs_end
            if not copy.durable <= length <= copy.received or runs_end != copy.runs_end:
                core = f"{copy.durable} of {copy.received} records and runs to {copy.runs_end}"
                store = f"{length} records and runs to {runs_end}"
                raise Violation("as-written", f"{host.name} says {core} of lane {lane}, and its store has {store}")

        for lane, settled in server.core._settled.items():
            lengths = _lengths(server, packed, lane)
            if lengths != (settled, settled) and (settled or lengths == (None, None)):
                said = f"{host.name} takes lane {lane} for settled with {settled} records"
                raise Violation("as-written", f"{said}, and its store has {lengths}")

    def _keeps_its_lanes(self, host: Host, server: ReplicaServer | None) -> None:
        """A lane that its shard counts on goes from a replica's disk by ordered entries, or with the disk."""
        disk, held = self._copies.get(host.name, (host.disk, set()))
        if disk is not host.disk:
            held = set()
        there = set() if server is None else self._lanes_of(host, server)
        if server is not None and any(found.lane is None for found in server.store.quarantined):
            there |= held  # nobody can say which lanes they were
        for lane in sorted(held - there):
            if self._counts_on(host, lane):
                raise Violation("lanes-kept", f"{host.name} has lost lane {lane}, which its shard counts on")
        if server is not None:
            there &= (
                held | {lane for lane, copy in server.core._lanes.items() if copy.durable} | {*server.core._settled}
            )
        self._copies[host.name] = host.disk, there

    def _lanes_of(self, host: Host, server: ReplicaServer) -> set[LaneId]:
        """The lanes that a replica has, and those that it has quarantined for their damage."""
        aside = {found.lane for found in server.store.quarantined if found.lane is not None}
        return {*server.store.lanes, *self._packed_lengths(host, server), *aside}

    def _packed_lengths(self, host: Host, server: ReplicaServer) -> dict[LaneId, int]:
        settled, known = server.store.settled, self._packed.get(host.name)
        if known is None or known[0] is not settled:  # which is made again whenever the packs change
            known = settled, {lane: length for lane, length, _ in settled.lengths()}
            self._packed[host.name] = known
        return known[1]

    def _counts_on(self, host: Host, lane: LaneId) -> bool:
        """Whether the host is a replica of the lane's shard, and has to have some of the lane."""
        state = self._state
        shard = None if state is None else state.shards.by_number.get(lane.shard)
        if state is None or shard is None or not any(each.address.host == host.address for each in shard.replicas):
            return False
        return state.lengths_due(lane.shard).get(lane, 0) > 0

    def _check_replica(self, host: Host, server: ReplicaServer) -> None:
        core = server.core
        for lane, is_open, durable, _ in core.lanes():
            if is_open:
                known = self._synced.setdefault(lane, {})
                known[host.name] = max(durable, known.get(host.name, 0))
        self._has_what_it_synced(host, server)
        runs = self._runs.setdefault(core._shard, {})
        runs[host.name] = max(core._runs.cut, runs.get(host.name, 0))
        self._same_tail(host, core.cut_number, core.tail)
        if core.state == "removed" and core.tail != self._removed_at.setdefault(f"{host.name} {host.lives}", core.tail):
            raise Violation("removed", f"{host.name} was removed, and follows the order on to {core.tail}")
        self._are_woken(host, server)
        if core.readable > core.tail:
            raise Violation("readable-bound", f"{host.name} serves up to {core.readable}, the tail is {core.tail}")
        who = f"{host.name} as {server._name}"  # a spare may become one after the other
        self._never_falls(host, (host.lives, core.readable, core.cut_number, core.tail), who)
        if core.shard_view is not None and core.shard_view.phase == "finalized":
            self._takes_no_more(host, core, who)
            for lane, is_open, durable, ordered in core.lanes():
                final = self._final_lengths.get(lane, ordered)
                if is_open or ordered != final or (core.is_settled(lane) and durable > final):
                    raise Violation(
                        "finalized",
                        f"{host.name} has {durable} records of lane {lane} ({ordered} ordered, open: {is_open}), which "
                        f"was finalized at {final}",
                    )
            for lane in core._settled:
                final = self._final_lengths.get(lane, core.ordered_length(lane) or 0)
                if core.ordered_length(lane) != final:
                    raise Violation("finalized", f"{host.name} has settled lane {lane} at another length than {final}")

    def _are_woken(self, host: Host, server: ReplicaServer) -> None:
        """Nobody waits for what is there."""
        for waits, limit in (
            (server.read_view.readable.waits, server.core.readable),
            (server.read_view.streams, server.core.tail),
        ):
            if waits.first is not None and waits.first < limit:
                raise Violation("woken", f"{host.name} lets somebody wait for {waits.first}, and is at {limit}")

    def _has_what_it_synced(self, host: Host, server: ReplicaServer) -> None:
        """A lane that a replica opens again has what it had synced, unless damage was found and it was quarantined.

        Damage and a power loss together may look like a write that was torn. A lane that was closed is cut to what is
        ordered of it, and a replica may be killed while it does that.
        """
        disk = (host.name, host.disks)
        life, before = self._had.get(disk, (host.lives, {}))
        now = {lane: durable for lane, _, durable, _ in server.core.lanes()}
        if life != host.lives:
            aside = {found.lane for found in server.store.quarantined}
            for lane, durable in now.items():
                if durable < self._kept(lane, before.get(lane, 0)) and lane not in aside and not host.flip_is_hidden:
                    said = f"{host.name} had synced {before[lane]} records of lane {lane}"
                    raise Violation("synced-kept", f"{said}, and has {durable} of them when it starts again")
        self._had[disk] = host.lives, now

    def _kept(self, lane: LaneId, synced: int) -> int:
        """How much of what a replica has synced of a lane it must have at its next start."""
        state = self._state
        if state is None or state.lanes.is_open(lane):
            return synced
        due = state.lengths_due(lane.shard).get(lane)
        if due is None:
            return synced if lane in state.parts.by_lane else 0
        return min(synced, due)

    def _takes_no_more(self, host: Host, core: ReplicaCore, who: str) -> None:
        lane = core.own_lane
        taken = 0 if lane is None else core.received(lane)
        if taken > self._taken.setdefault((who, host.lives), taken):
            raise Violation("finalized", f"{host.name} has taken a batch into lane {lane}, which is finalized")

    def _same_ends(self, host: Host, state: OrderingState) -> None:
        """What is ordered of a finalized shard never changes. Of its lanes some may have been trimmed before that."""
        final = {number for number, shard in state.shards.by_number.items() if shard.phase == "finalized"}
        self._final |= final
        for lane, closed in state.lanes.closed.items():
            self._ends[lane.shard] = max(self._ends.get(lane.shard, 0), closed.end)
            if lane.shard in final and self._final_lengths.setdefault(lane, closed.length) != closed.length:
                length = self._final_lengths[lane]
                raise Violation("finalized", f"lane {lane} ends at {closed.length} at {host.name}, not at {length}")

    def check_final_ends(self) -> None:
        """Nothing behind the last cut of a finalized shard was ever acknowledged."""
        for record, (shard, position) in self._world.recorder.placed.items():
            if shard in self._final and position >= self._ends.get(shard, 0):
                raise Violation(
                    "finalized",
                    f"{record[0]}/{record[1]} was acknowledged at position {position} of shard {shard}, which was "
                    f"finalized before {self._ends.get(shard, 0)}",
                )

    def _same_tail(self, host: Host, cut: int, tail: int) -> None:
        """A cut is one cut: whoever knows it knows the same tail."""
        if cut == 0:
            return
        known, who = self._tails.setdefault(cut, (tail, host.name))
        if known != tail:
            raise Violation("one-order", f"after cut {cut} the tail is {known} at {who} and {tail} at {host.name}")

    def _same_state(self, host: Host, state: OrderingState) -> None:
        """Entries are one log: whoever has applied the same has the same state, however it came by it."""
        has = (state.tail, state.first, state.time_us, state.shards.version, len(state.sessions.by_id), len(state.kept))
        known, who = self._states.setdefault(state.index, (has, host.name))
        if known != has:
            said = f"after entry {state.index} tail, first, time, view, sessions and kept cuts are {known} at {who}"
            raise Violation("one-order", f"{said} and {has} at {host.name}")

    def _never_falls(self, host: Host, now: tuple[int, int, int, int], who: str = "") -> None:
        before = self._last.get(who or host.name)
        self._last[who or host.name] = now
        if before is not None and before[0] == now[0] and any(new < old for old, new in zip(before, now, strict=True)):
            raise Violation("monotone", f"{host.name} fell from {before[1:]} to {now[1:]}")


def _lengths(server: ReplicaServer, packed: dict[LaneId, int], lane: LaneId) -> tuple[int | None, int | None]:
    """How long a lane and its runs are, or were when their files were closed; None for what was never opened."""
    held = server.store.lanes.get(lane)
    if held is None:
        length = packed.get(lane)
        return length, length
    opened, runs = held.opened_lane, held.opened_runs
    return (
        held.length_left if opened is None else opened.length,
        held.runs_end_left if runs is None else runs.end_lsn,
    )
