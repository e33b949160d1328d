"""The two ends of a simulated connection, and the pipes between them."""

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ithaca.model.records import Buffer

if TYPE_CHECKING:
    from ithaca.sim.network import SimNetwork
    from ithaca.sim.process import Process

WINDOW_BYTES = 256 << 10
"""What the kernels of both sides hold for a peer that does not read."""


class SimTransport(asyncio.Transport):
    """One end of a connection, in the process that has it open."""

    out: "Pipe"

    def __init__(self, process: "Process", name: tuple[str, int], peer_name: tuple[str, int]) -> None:
        super().__init__({"sockname": name, "peername": peer_name})
        self.process = process
        self.is_dead = False
        """Nothing goes in or out any more."""
        self._port = max(name[1], peer_name[1])
        self._protocol: Any = None
        self._is_closing = False
        self._was_told = False
        self._is_reading = True
        self._high_bytes = 64 << 10
        self._is_writing_paused = False
        self._inbox: deque[bytes | None] = deque()
        self._held_frame: bytes | None = None

    def begin(self, factory: Callable[[], Any]) -> Any:
        """In its process: make the protocol, and connect it."""
        self._protocol = factory()
        if not self.is_dead:
            self._protocol.connection_made(self)
            self._take()
        return self._protocol

    # Writing

    def write(self, data: Buffer) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        if self.is_dead or self.out.is_ended:
            return
        data = b"".join(list_of_data)
        network = self.process.network
        befalls = network.befalls(data)
        if befalls == "message swapped" and self._held_frame is None:
            self._held_frame = data
            return
        if befalls != "message lost":
            self.out.send(data)
        if befalls == "message doubled":
            self.out.send(data)
        if self._held_frame is not None:
            held, self._held_frame = self._held_frame, None
            self.out.send(held)
        if not self._is_writing_paused and self.get_write_buffer_size() > self._high_bytes:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def write_eof(self) -> None:
        if not self.is_dead and not self.out.is_ended:
            self.out.send(None)

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return max(0, self.out.unread_bytes - WINDOW_BYTES)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = 64 << 10 if high is None else high

    @property
    def waits_for_reader(self) -> bool:
        return not self.is_dead and (self._is_writing_paused or self._is_closing)

    def taken(self) -> None:
        """The peer has read something."""
        if self._is_writing_paused and not self.is_dead and self.get_write_buffer_size() <= self._high_bytes // 4:
            self._is_writing_paused = False
            self._protocol.resume_writing()
        if self._is_closing and self.get_write_buffer_size() == 0:
            self._end(None)

    # Reading

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self.process.loop.call_soon(self._take)

    def arrived(self, chunk: bytes | None) -> None:
        """By the network: a chunk is here, or the end."""
        if not self.is_dead:
            self._inbox.append(chunk)
            self.process.loop.call_soon(self._take)

    def _take(self) -> None:
        while self._inbox and self._is_reading and self._protocol is not None and not self.is_dead:
            chunk = self._inbox.popleft()
            if chunk is None:
                if not self._protocol.eof_received():
                    self.close()
                return
            self._hand_over(chunk)
            self.out.peer_pipe.taken(len(chunk))

    def _hand_over(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view and not self.is_dead and not self._is_closing:
            buffer = self._protocol.get_buffer(-1)
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            self._protocol.buffer_updated(count)
            view = view[count:]

    # Ending

    def is_closing(self) -> bool:
        return self._is_closing or self.is_dead

    def close(self) -> None:
        if self.is_dead or self._is_closing:
            return
        self._is_closing = True
        self.write_eof()
        if self.get_write_buffer_size() == 0:
            self._end(None)

    def abort(self) -> None:
        if not self.is_dead:
            self._is_closing = True
            self.out.reset()
            self._end(None)

    def lost(self, error: OSError) -> None:
        """By the network: the connection is gone."""
        if not self.is_dead:
            self._end(error)

    def die(self, *, silently: bool) -> None:
        """With its process, whom nobody tells."""
        if not self.is_dead:
            self.is_dead = self._was_told = True
            if not silently:
                self.out.reset()

    def _end(self, error: OSError | None) -> None:
        if self._was_told:
            return
        self._was_told = True
        self.process.loop.call_soon(self._tell, error)

    def _tell(self, error: OSError | None) -> None:
        if not self.is_dead:
            self.is_dead = True
            self.process.network.forget(self._port)
            if self._protocol is not None:
                self._protocol.connection_lost(error)

    def get_protocol(self) -> Any:
        return self._protocol


class Pipe:
    """What one end has sent to the other."""

    def __init__(self, network: "SimNetwork", source: SimTransport, target: SimTransport) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._chunks: deque[bytes | None] = deque()
        self._last_ns = 0
        self._is_reset = False
        self.is_ended = False
        self.unread_bytes = 0

    @property
    def peer_pipe(self) -> "Pipe":
        return self._target.out

    def send(self, data: bytes | None) -> None:
        if data is None:
            self.is_ended = True
            self._send(None)
            return
        self.unread_bytes += len(data)
        for piece in self._network.pieces(data):
            self._send(piece)

    def _send(self, chunk: bytes | None) -> None:
        scheduler = self._network.scheduler
        self._chunks.append(chunk)
        self._last_ns = max(self._last_ns, scheduler.now_ns + self._network.delay_ns())
        scheduler.plan_at(self._last_ns, None, self._arrive)

    def _arrive(self) -> None:
        network = self._network
        if self._is_reset or not self._chunks:
            return
        source, target = self._source.process.host, self._target.process.host
        if target in network.dark_hosts or network.is_cut(source, target):
            self._last_ns = network.scheduler.now_ns + network.resend_ns()
            network.scheduler.plan_at(self._last_ns, None, self._arrive)
            return
        chunk = self._chunks.popleft()
        if self._target.is_dead:  # nobody has this connection open there: its kernel says so
            self._is_reset = True
            network.scheduler.plan(network.delay_ns(), None, lambda: self._source.lost(_reset_error()))
            return
        network.note(source, target, chunk or b"")
        self._target.arrived(chunk)

    def taken(self, count: int) -> None:
        self.unread_bytes -= count
        if self._source.waits_for_reader:
            self._source.process.loop.call_soon(self._source.taken)

    def reset(self) -> None:
        """End the connection without a word more; the other side hears of it if it can."""
        self.is_ended = self._is_reset = True
        self._chunks.clear()
        network = self._network
        network.scheduler.plan(network.delay_ns(), None, self._tell_reset)

    def _tell_reset(self) -> None:
        """Said once: over a link that is cut, the other side finds out by itself."""
        source = self._source.process.host
        if self._network.is_cut(source, self._target.process.host):
            self._network.probe_later(self._target, source, 0)
        else:
            self._target.lost(_reset_error())


def _reset_error() -> OSError:
    return ConnectionResetError(errno.ECONNRESET, "connection reset by peer")
