"""Memory for frames that have begun to arrive, shared by all connections of a server.

A frame says at its beginning how long it is. If it does not arrive at once, its whole length is taken from the budget
until it is complete, so that every frame that was let in can be completed. Whoever finds nothing left waits: nothing
more is read from that connection. What waiting connections have received already is bounded as well; beyond that they
are closed. Servers have a part of the budget that clients cannot take, and are let in first.

A frame larger than the whole budget is let in alone.
"""

from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Protocol

from ithaca.model.errors import Overloaded


class Receiving(Protocol):
    """A connection that receives a frame."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _Side:
    """Clients, or servers."""

    def __init__(self) -> None:
        self.bytes = 0
        self.waiting: deque[Receiving] = deque()


class FrameBudget:
    """What unfinished frames may take."""

    def __init__(self, bytes_max: int, reserved: int, waiting_bytes_max: int) -> None:
        """Of the first, clients cannot have the second; the third is what those may have received that wait."""
        self._bytes_max = bytes_max
        self._reserved = reserved
        self._waiting_bytes_max = waiting_bytes_max
        self._clients = _Side()
        self._servers = _Side()
        self._held: dict[Receiving, tuple[_Side, int]] = {}
        self._wanted: dict[Receiving, tuple[_Side, int, int]] = {}
        """Of those that wait: what they want, and what they have received."""
        self._waiting_bytes = 0

    @property
    def bytes(self) -> int:
        """What frames hold that were let in."""
        return self._clients.bytes + self._servers.bytes

    @property
    def waiting(self) -> int:
        """Connections that wait to go on."""
        return len(self._wanted)

    @property
    def connections(self) -> Iterator[Receiving]:
        """Those that hold something, or wait for it."""
        return chain(self._held, self._wanted)

    @property
    def has_room_for_next(self) -> bool:
        """Whether somebody waits who could be let in."""
        sides = (side for side in (self._servers, self._clients) if side.waiting)
        return any(self._has_room(side, self._wanted[side.waiting[0]][1]) for side in sides)

    def receives(self, connection: Receiving, length: int, received: int, *, is_server: bool) -> None:
        """So much was received of a frame of this length; 0 for none. `Overloaded` when it cannot even wait."""
        held = self._held.get(connection)
        if (0 if held is None else held[1]) == length or connection in self._wanted:
            return
        if held is not None:
            self._release(connection)
        if length:
            side = self._servers if is_server else self._clients
            if not side.waiting and self._has_room(side, length):
                self._hold(connection, side, length)
            else:
                self._wait(connection, side, length, received)
        self._serve()

    def left(self, connection: Receiving) -> None:
        """The connection has ended."""
        self._release(connection)
        wanted = self._wanted.pop(connection, None)
        if wanted is not None:
            side, _, received = wanted
            side.waiting.remove(connection)
            self._waiting_bytes -= received
        self._serve()

    def _has_room(self, side: _Side, length: int) -> bool:
        if not side.bytes:
            return True
        fits = self.bytes + length <= self._bytes_max
        if side is self._servers:
            return fits
        return fits and not self._servers.waiting and side.bytes + length <= self._bytes_max - self._reserved

    def _hold(self, connection: Receiving, side: _Side, length: int) -> None:
        self._held[connection] = side, length
        side.bytes += length

    def _release(self, connection: Receiving) -> None:
        held = self._held.pop(connection, None)
        if held is not None:
            side, length = held
            side.bytes -= length

    def _wait(self, connection: Receiving, side: _Side, length: int, received: int) -> None:
        if self._waiting_bytes + received > self._waiting_bytes_max:
            raise Overloaded(
                f"unfinished frames hold {self.bytes} bytes, and {len(self._wanted)} connections wait with "
                f"{self._waiting_bytes} more: try again later"
            )
        self._wanted[connection] = side, length, received
        self._waiting_bytes += received
        side.waiting.append(connection)
        connection.pause_reading()

    def _serve(self) -> None:
        """Let in who waits and has room now, servers first."""
        for side in (self._servers, self._clients):
            while side.waiting and self._has_room(side, self._wanted[side.waiting[0]][1]):
                connection = side.waiting.popleft()
                _, length, received = self._wanted.pop(connection)
                self._waiting_bytes -= received
                self._hold(connection, side, length)
                connection.resume_reading()
