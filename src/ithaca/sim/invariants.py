"""What must hold after every single step of a world; docs/proof.md lists the rules by these names.

Cheap on purpose: only the server to which something has just happened is looked at.
"""

from ithaca.raft.core import RaftCore
from ithaca.raft.events import Role
from ithaca.server.orderer import OrdererServer
from ithaca.server.replica import ReplicaServer
from ithaca.sim.world import Host, Violation, World


class Invariants:
    """Remembers what was seen of every server, and compares."""

    def __init__(self, world: World) -> None:
        self._leaders: dict[int, str] = {}
        self._tails: dict[int, tuple[int, str]] = {}
        """By the number of a cut: the tail after it, and who said so."""
        self._last: dict[str, tuple[int, int, int, int]] = {}
        """Of each host: its life, and what must not fall during one."""
        self._durable: dict[int, tuple[int, int]] = {}
        """Of each orderer: its term, and how much of its log was durable at some time in it."""
        self._hosts = {host.name: host for host in world.hosts.values()}

    def check(self, name: str) -> None:
        """Something has happened to this process."""
        host = self._hosts.get(name)
        if host is None or not host.is_up:
            return
        server = host.server
        if isinstance(server, OrdererServer):
            self._check_orderer(host, server)
        elif isinstance(server, ReplicaServer) and hasattr(server, "core"):
            self._check_replica(host, server)

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
        self._same_tail(host, state.cut_number, state.tail)
        self._never_falls(host, (host.lives, driver.term, driver.commit_index, state.tail))
        if state.first > state.tail:
            raise Violation("trim-bound", f"{host.name} has trimmed to {state.first}, beyond the tail {state.tail}")

    def _keeps_its_word(self, core: RaftCore) -> None:
        """What a follower has told its leader that it has is on its disk: a term takes nothing of that back."""
        node = core.node
        term, durable = self._durable.get(node.id, (0, 0))
        self._durable[node.id] = (node.term, max(durable if term == node.term else 0, node.persistence.index))
        if core.leadership is None:
            return
        for server, progress in core.leadership.progress.items():
            term, durable = self._durable.get(server, (0, 0))
            if term == node.term and progress.match_index > durable:
                told = f"orderer {server} has said that it has entry {progress.match_index}"
                raise Violation("promised", f"{told}, and {durable} is the last one on its disk")

    def _check_replica(self, host: Host, server: ReplicaServer) -> None:
        core = server.core
        self._same_tail(host, core.cut_number, core.tail)
        if core.readable > core.tail:
            raise Violation("readable-bound", f"{host.name} serves up to {core.readable}, the tail is {core.tail}")
        self._never_falls(host, (host.lives, core.readable, core.cut_number, core.tail))

    def _same_tail(self, host: Host, cut: int, tail: int) -> None:
        """A cut is one cut: whoever knows it knows the same tail."""
        if cut == 0:
            return
        known, who = self._tails.setdefault(cut, (tail, host.name))
        if known != tail:
            raise Violation("one-order", f"after cut {cut} the tail is {known} at {who} and {tail} at {host.name}")

    def _never_falls(self, host: Host, now: tuple[int, int, int, int]) -> None:
        before = self._last.get(host.name)
        self._last[host.name] = now
        if before is not None and before[0] == now[0] and any(new < old for old, new in zip(before, now, strict=True)):
            raise Violation("monotone", f"{host.name} fell from {before[1:]} to {now[1:]}")
