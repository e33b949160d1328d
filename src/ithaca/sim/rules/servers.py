"""What must hold of every server: it ends when a sync of it has failed, and counts its connections right."""

from ithaca.runtime.listener import Listener
from ithaca.sim.host import Host
from ithaca.sim.violation import Violation
from ithaca.sim.world import World

_FENCED_NS = 1_000_000_000
_FENCED_STEPS = 300
"""After a failed sync a server that could do so much in so long has ended."""


class ServerRules:
    """Looks at the server to which something has just happened."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._steps_after: dict[str, int] = {}
        """Of each host: what its process has done since a sync of it failed."""

    def check(self, host: Host) -> None:
        self._ends_after_failed_sync(host)
        listener = self._world.simulation.listener_of(host)
        if listener is not None:
            self._counts_connections(host, listener)

    def _ends_after_failed_sync(self, host: Host) -> None:
        if host.sync_failed_ns is None:
            self._steps_after.pop(host.name, None)
            return
        steps = self._steps_after[host.name] = self._steps_after.get(host.name, 0) + 1
        if steps > _FENCED_STEPS:
            self._has_had_time(host)

    def check_fenced(self) -> None:
        """At the end: nobody goes on whose sync failed, however little it had to do since."""
        for host in self._world.hosts.values():
            self._has_had_time(host)

    def _has_had_time(self, host: Host) -> None:
        failed_ns = host.sync_failed_ns
        if failed_ns is not None and host.world.scheduler.now_ns - failed_ns > _FENCED_NS:
            raise Violation("fenced", f"a sync of {host.name} failed at {failed_ns}, and it goes on")

    def _counts_connections(self, host: Host, listener: Listener) -> None:
        """Only connections that are there count and hold memory, clients leave servers their part, and nobody waits
        for room that is there.
        """
        admission = listener.admission
        if admission.clients > admission.capacity.clients:
            said = f"{host.name} holds {admission.clients} clients"
            raise Violation("reserved", f"{said}, and may have {admission.capacity.clients}: the rest is for servers")
        if admission.count > listener.connection_count:
            said = f"{host.name} counts {admission.count} connections"
            raise Violation("admitted", f"{said}, and has {listener.connection_count}")
        if any(connection not in listener._connections for connection in listener.frames.connections):
            raise Violation("admitted", f"a connection that {host.name} has no more holds memory for a frame")
        if listener.frames.waiting and listener.frames.has_room_for_next:
            raise Violation("woken", f"{host.name} has room for the next unfinished frame, and lets it wait")
