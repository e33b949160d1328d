"""What must hold after every single step of a world; docs/proof.md lists the rules by these names.

Cheap on purpose: only the server to which something has just happened is looked at.
"""

from ithaca.model.positions import LaneId
from ithaca.ordering.lanes import LaneTable
from ithaca.ordering.state import OrderingState
from ithaca.raft.core import RaftCore
from ithaca.raft.events import Role
from ithaca.server.orderer import OrdererServer
from ithaca.server.replica import ReplicaServer
from ithaca.sim.host import Host
from ithaca.sim.violation import Violation
from ithaca.sim.world import World

_FENCED_NS = 1_000_000_000
_FENCED_STEPS = 300
"""After a failed sync a server that could do so much in so long has ended."""


class Invariants:
    """Remembers what was seen of every server, and compares."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._leaders: dict[int, str] = {}
        self._tails: dict[int, tuple[int, str]] = {}
        """By the number of a cut: the tail after it, and who said so."""
        self._last: dict[str, tuple[int, int, int, int]] = {}
        """Of each host: its life, and what must not fall during one."""
        self._durable: dict[int, tuple[int, int]] = {}
        """Of each orderer: its term, and how much of its log was durable at some time in it."""
        self._synced: dict[LaneId, dict[str, int]] = {}
        """Of each lane: how much of it each replica had on its disk at some time."""
        self._ordered: dict[LaneId, int] = {}
        """How much of each lane was ordered when that was last looked at."""
        self._members: dict[int, set[str]] = {}
        """The hosts of each shard when that was last looked at."""
        self._removed_at: dict[str, int] = {}
        """Of each host whose replica knows that it was removed: how far it could be read then."""
        self._newest_cut = 0
        self._steps_after: dict[str, int] = {}
        """Of each host: what its process has done since a sync of it failed."""
        self._seen: dict[str, tuple[int, int]] = {}
        """Of each orderer: its life, and the last entry that was looked at."""
        self._final_lengths: dict[LaneId, int] = {}
        self._final_ends: dict[int, int] = {}
        """Behind the last position of each shard that is finalized."""
        self._hosts = {host.name: host for host in world.hosts.values()}

    def check(self, name: str) -> None:
        """Something has happened to this process."""
        host = self._hosts.get(name)
        if host is None or not host.is_up:
            return
        self._ends_after_failed_sync(host)
        server = host.server
        if isinstance(server, OrdererServer):
            self._check_orderer(host, server)
        elif host.replica is not None:
            self._check_replica(host, host.replica)

    def _ends_after_failed_sync(self, host: Host) -> None:
        if host.sync_failed_ns is None:
            self._steps_after.pop(host.name, None)
            return
        steps = self._steps_after[host.name] = self._steps_after.get(host.name, 0) + 1
        if steps > _FENCED_STEPS:
            self._has_had_time(host)

    def check_fenced(self) -> None:
        """At the end: nobody goes on whose sync failed, however little it had to do since."""
        for host in self._hosts.values():
            self._has_had_time(host)

    def _has_had_time(self, host: Host) -> None:
        failed_ns = host.sync_failed_ns
        if failed_ns is not None and host.world.scheduler.now_ns - failed_ns > _FENCED_NS:
            raise Violation("fenced", f"a sync of {host.name} failed at {failed_ns}, and it goes on")

    def _check_orderer(self, host: Host, server: OrdererServer) -> None:
        driver = server._driver
        if driver is None:
            return
        if driver.role is Role.LEADER:
            first = self._leaders.setdefault(driver.term, host.name)
            if first != host.name:
                raise Violation("one-leader", f"{first} and {host.name} both lead term {driver.term}")
        self._keeps_its_word(driver._core)
        state = server._machine.state
        if state.shards.version > self._world.view.version:
            self._world.view = state.view
        self._same_tail(host, state.cut_number, state.tail)
        if state.cut_number > self._newest_cut:
            self._newest_cut = state.cut_number
            self._is_synced(state)
        self._never_falls(host, (host.lives, driver.term, driver.commit_index, state.tail))
        if self._seen.get(host.name) != (host.lives, state.index):
            self._seen[host.name] = host.lives, state.index
            for number, shard in state.shards.by_number.items():
                if shard.phase == "finalized":
                    self._same_end(host, number, state.lanes)
        if state.first > state.tail:
            raise Violation("trim-bound", f"{host.name} has trimmed to {state.first}, beyond the tail {state.tail}")

    def _keeps_its_word(self, core: RaftCore) -> None:
        """What a follower has told its leader that it has is on its disk: a term takes nothing of that back."""
        node = core.node
        term, durable = self._durable.get(node.id, (0, 0))
        has = max(node.persistence.index, node.snapshot.index)  # one that is on its way replaces what was on the disk
        self._durable[node.id] = (node.term, max(durable if term == node.term else 0, has))
        if core.leadership is None:
            return
        for server, progress in core.leadership.progress.items():
            term, durable = self._durable.get(server, (0, 0))
            if term == node.term and progress.match_index > durable:
                told = f"orderer {server} has said that it has entry {progress.match_index}"
                raise Violation("promised", f"{told}, and {durable} is the last one on its disk")

    def _is_synced(self, state: OrderingState) -> None:
        """What is ordered now of a lane was synced by f + 1 of the replicas that its shard has now."""
        for shard in state.view.shards:
            present = {each.address.host for each in shard.replicas}
            members = present | self._members.get(shard.shard, present)  # the cut may be from before they changed
            self._members[shard.shard] = present
            for lane in shard.open_lanes():
                length = state.lanes.ordered_length(lane) or 0
                if length <= self._ordered.get(lane, 0):
                    continue
                self._ordered[lane] = length
                known = self._synced.get(lane, {})
                lengths = (known[name] for name in known if self._hosts[name].address in members)
                synced = sorted(lengths, reverse=True)[: shard.copies]
                if length > (synced[-1] if len(synced) == shard.copies else 0):
                    said = f"{length} records of lane {lane} are ordered"
                    raise Violation("synced-first", f"{said}, and the {shard.copies} that synced most synced {synced}")

    def _check_replica(self, host: Host, server: ReplicaServer) -> None:
        core = server.core
        for lane, is_open, durable, _ in core.lanes():
            if is_open:
                known = self._synced.setdefault(lane, {})
                known[host.name] = max(durable, known.get(host.name, 0))
        self._same_tail(host, core.cut_number, core.tail)
        if core.state == "removed" and core.tail != self._removed_at.setdefault(f"{host.name} {host.lives}", core.tail):
            raise Violation("removed", f"{host.name} was removed, and follows the order on to {core.tail}")
        if core.readable > core.tail:
            raise Violation("readable-bound", f"{host.name} serves up to {core.readable}, the tail is {core.tail}")
        who = f"{host.name} as {server._name}"  # a spare may become one after the other
        self._never_falls(host, (host.lives, core.readable, core.cut_number, core.tail), who)
        if core.shard_view is not None and core.shard_view.phase == "finalized":
            for lane, is_open, durable, ordered in core.lanes():
                final = self._final_lengths.get(lane, ordered)
                if is_open or ordered != final or (core.is_settled(lane) and durable > final):
                    raise Violation(
                        "finalized",
                        f"{host.name} has {durable} records of lane {lane} ({ordered} ordered, open: {is_open}), which "
                        f"was finalized at {final}",
                    )

    def _same_end(self, host: Host, shard: int, lanes: LaneTable) -> None:
        """What is ordered of a finalized shard never changes."""
        for lane, closed in lanes.closed.items():
            if lane.shard == shard:
                self._final_ends[shard] = max(self._final_ends.get(shard, 0), closed.end)
                if self._final_lengths.setdefault(lane, closed.length) != closed.length:
                    final = self._final_lengths[lane]
                    raise Violation("finalized", f"lane {lane} ends at {closed.length} at {host.name}, not at {final}")

    def check_final_ends(self) -> None:
        """Nothing behind the last cut of a finalized shard was ever acknowledged."""
        for record, (shard, position) in self._world.recorder.placed.items():
            if position >= self._final_ends.get(shard, position + 1):
                raise Violation(
                    "finalized",
                    f"{record[0]}/{record[1]} was acknowledged at position {position} of shard {shard}, which was "
                    f"finalized before {self._final_ends[shard]}",
                )

    def _same_tail(self, host: Host, cut: int, tail: int) -> None:
        """A cut is one cut: whoever knows it knows the same tail."""
        if cut == 0:
            return
        known, who = self._tails.setdefault(cut, (tail, host.name))
        if known != tail:
            raise Violation("one-order", f"after cut {cut} the tail is {known} at {who} and {tail} at {host.name}")

    def _never_falls(self, host: Host, now: tuple[int, int, int, int], who: str = "") -> None:
        before = self._last.get(who or host.name)
        self._last[who or host.name] = now
        if before is not None and before[0] == now[0] and any(new < old for old, new in zip(before, now, strict=True)):
            raise Violation("monotone", f"{host.name} fell from {before[1:]} to {now[1:]}")
