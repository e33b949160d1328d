"""A simulated TCP: connections between hosts, over links that are slow, lossy, cut in one direction or in both.

What a connection promises, this one does: bytes come in their order, once, or the connection ends. What a
kernel does underneath is drawn from chance: how long a chunk takes, how bytes are cut into chunks, how often a
lost one is sent again. A link that is cut keeps what was sent; after `PEER_SILENT_S_MAX` both kernels give up.
A process that dies resets its connections; a host that loses power says nothing.

Messages that promise to survive it (Raft's, and reports) are also lost, doubled and swapped one by one.
"""

import asyncio
import errno
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from ithaca.model.limits import PEER_PROBE_S, PEER_SILENT_S_MAX
from ithaca.sim.scheduler import NS_PER_S, Scheduler
from ithaca.sim.transport import Pipe, SimTransport

if TYPE_CHECKING:
    from ithaca.sim.process import Process

_MS = 1_000_000
_RESEND_NS = 200 * _MS
_DIAL_AGAIN_NS = 1000 * _MS
_NAME = "the-host-at-"
_FIRST_PORT = 40_000


class Weather:
    """What the network is like; the world changes it while it runs."""

    def __init__(self) -> None:
        self.delay_ns = (50_000, 500_000)
        """Least and most of an ordinary chunk's way."""
        self.straggler = 0.0
        """How likely a chunk takes up to fifty times as long."""
        self.loss = 0.0
        """How likely a chunk is lost, and sent again after a while."""
        self.split = 0.0
        """How likely a write arrives in pieces."""
        self.mischief = 0.0
        """How likely a message that can stand it is lost, doubled or swapped with the next."""
        self.robust_types: frozenset[int] = frozenset()
        """Frame types of those messages."""


class SimServer:
    """What `create_server` gives."""

    def __init__(self, network: "SimNetwork", address: tuple[str, int]) -> None:
        self._network = network
        self._address = address
        self.sockets: list[Any] = []

    def close(self) -> None:
        self._network.listeners.pop(self._address, None)

    async def wait_closed(self) -> None:
        pass


class SimNetwork:
    """All hosts, and what is between them."""

    def __init__(
        self,
        scheduler: Scheduler,
        random: Random,
        count: Callable[[str], None],
        note: Callable[[str, str, bytes], None],
    ) -> None:
        self.scheduler = scheduler
        self.weather = Weather()
        self.count = count
        """Told of every odd thing that befalls a message, by name."""
        self.note = note
        """Told of every chunk that arrives: from which host, at which."""
        self.listeners: dict[tuple[str, int], tuple[Process, Callable[[], Any]]] = {}
        self.dark_hosts: set[str] = set()
        """Hosts without power: nothing answers there, not even a refusal."""
        self.exhausted: set[str] = set()
        """Hosts whose server may have no more connections."""
        self._random = random
        self._cut: dict[tuple[str, str], int] = {}
        self._cuts = 0
        self._port = _FIRST_PORT
        self._connections: dict[int, tuple[SimTransport, SimTransport]] = {}

    def clear(self) -> None:
        """The world has ended."""
        self.listeners.clear()
        self._connections.clear()

    # Links

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def cut(self, source: str, target: str) -> None:
        """Nothing gets from one host to the other any more; the other direction is not touched."""
        if (source, target) in self._cut or source == target:
            return
        self._cuts += 1
        number = self._cut[source, target] = self._cuts
        self.scheduler.plan(int(PEER_SILENT_S_MAX * NS_PER_S), None, lambda: self._give_up((source, target), number))

    def heal(self, source: str, target: str) -> None:
        self._cut.pop((source, target), None)

    def heal_all(self) -> None:
        self._cut.clear()

    @property
    def cuts(self) -> list[tuple[str, str]]:
        return list(self._cut)

    def _give_up(self, link: tuple[str, str], number: int) -> None:
        """Probes have gone unanswered for too long, whichever direction is cut."""
        if self._cut.get(link) != number:
            return
        for key, pair in list(self._connections.items()):
            if {end.process.host for end in pair} == set(link):
                del self._connections[key]
                for end in pair:
                    end.lost(TimeoutError(errno.ETIMEDOUT, "the peer does not answer"))

    def delay_ns(self) -> int:
        """How long one chunk takes."""
        random, weather = self._random, self.weather
        delay = random.randint(*weather.delay_ns)
        if weather.straggler and random.random() < weather.straggler:
            delay *= random.randint(2, 50)
        while weather.loss and random.random() < weather.loss:
            self.count("network loss")
            delay += _RESEND_NS
        return delay

    def resend_ns(self) -> int:
        return _RESEND_NS

    def pieces(self, data: bytes) -> list[bytes]:
        """How the kernel cuts what was written."""
        if not self.weather.split or len(data) < 2 or self._random.random() >= self.weather.split:
            return [data]
        at = self._random.randrange(1, len(data))
        return [data[:at], data[at:]]

    def befalls(self, frame: bytes) -> str:
        """What happens to a message: nothing, mostly."""
        weather = self.weather
        if not weather.mischief or len(frame) < 5 or frame[4] not in weather.robust_types:
            return ""
        if self._random.random() >= weather.mischief:
            return ""
        what = self._random.choice(("message lost", "message doubled", "message swapped"))
        self.count(what)
        return what

    # Connections

    def name_of(self, address: str) -> str:
        """Another name of a host's address."""
        return f"{_NAME}{address}"

    def listen(self, process: "Process", factory: Callable[[], Any], host: str, port: int) -> SimServer:
        host = host.removeprefix(_NAME)
        if (host, port) in self.listeners:
            raise OSError(errno.EADDRINUSE, "address in use")
        self.listeners[host, port] = (process, factory)
        return SimServer(self, (host, port))

    async def connect(
        self, process: "Process", factory: Callable[[], Any], host: str, port: int
    ) -> tuple[SimTransport, Any]:
        made: asyncio.Future[tuple[SimTransport, Any]] = process.loop.create_future()
        address = (host.removeprefix(_NAME), port)
        self.scheduler.plan(self.delay_ns(), None, lambda: self._dial(process, factory, address, made))
        return await made

    def _dial(
        self,
        process: "Process",
        factory: Callable[[], Any],
        address: tuple[str, int],
        made: "asyncio.Future[tuple[SimTransport, Any]]",
    ) -> None:
        if made.done() or not process.is_alive:
            return
        ours, theirs = process.host, address[0]
        if ours in self.exhausted:
            nothing_left = OSError(errno.EMFILE, "too many open files")
            self.scheduler.plan(self.delay_ns(), process, lambda: _refuse(made, nothing_left))
            return
        is_cut = theirs in self.dark_hosts or self.is_cut(ours, theirs) or self.is_cut(theirs, ours)
        if is_cut or theirs in self.exhausted:  # what is not accepted waits in the kernel
            self.scheduler.plan(_DIAL_AGAIN_NS, None, lambda: self._dial(process, factory, address, made))
            return
        found = self.listeners.get(address)
        if found is None:
            refused = ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
            self.scheduler.plan(self.delay_ns(), process, lambda: _refuse(made, refused))
            return
        server, server_factory = found
        self._port += 1
        dialler = SimTransport(process, (ours, self._port), address)
        accepted = SimTransport(server, address, (ours, self._port))
        dialler.out, accepted.out = Pipe(self, dialler, accepted), Pipe(self, accepted, dialler)
        self._connections[self._port] = (dialler, accepted)
        server.loop.call_soon(accepted.begin, server_factory)
        self.scheduler.plan(self.delay_ns(), None, lambda: process.loop.call_soon(_finish_dial, dialler, factory, made))

    def reset(self, some: set[str], others: set[str]) -> int:
        """Break every connection between two hosts of which one is among these, the other among those; how many."""
        broken = 0
        for key, pair in list(self._connections.items()):
            one, other = (end.process.host for end in pair)
            if one != other and ((one in some and other in others) or (other in some and one in others)):
                broken += 1
                del self._connections[key]
                for end in pair:
                    end.lost(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))
        return broken

    def forget(self, port: int) -> None:
        self._connections.pop(port, None)

    def process_died(self, process: "Process", *, silently: bool) -> None:
        """Close what it listened at; reset its connections, unless its host has no power to do so."""
        for address in [address for address, (owner, _) in self.listeners.items() if owner is process]:
            del self.listeners[address]
        for pair in list(self._connections.values()):
            for end, other in (pair, reversed(pair)):
                if end.process is process:
                    end.die(silently=silently)
                    self.probe_later(other, end.process.host, 0)

    def probe_later(self, end: SimTransport, peer: str, unanswered_s: float) -> None:
        """Have the kernel of an end whose other side is gone, and could not say so, find that out by itself."""
        self.scheduler.plan(int(PEER_PROBE_S * NS_PER_S), None, lambda: self._probe(end, peer, unanswered_s))

    def _probe(self, end: SimTransport, peer: str, unanswered_s: float) -> None:
        """The kernel of an idle connection asks whether the other side, which is dead, is still there."""
        if end.is_dead:
            return
        host = end.process.host
        if peer not in self.dark_hosts and not self.is_cut(host, peer) and not self.is_cut(peer, host):
            end.lost(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))
        elif unanswered_s + PEER_PROBE_S >= PEER_SILENT_S_MAX:
            end.lost(TimeoutError(errno.ETIMEDOUT, "the peer does not answer"))
        else:
            self.probe_later(end, peer, unanswered_s + PEER_PROBE_S)


def _finish_dial(dialler: SimTransport, factory: Callable[[], Any], made: "asyncio.Future[Any]") -> None:
    if made.done():  # whoever dialled has given up
        dialler.die(silently=False)
        return
    made.set_result((dialler, dialler.begin(factory)))


def _refuse(made: "asyncio.Future[Any]", error: OSError) -> None:
    if not made.done():
        made.set_exception(error)
