"""Who may connect to a server, when not everybody can.

A connection goes through up to three stages, each with a bound of its own:

1. *Greeting*: it has not said hello. With one too many the oldest of these goes: others have said hello by then.
2. *Admitted*, by the role in its hello. Clients leave a part of the connections to servers, so that a crowd of clients
   keeps no replica, orderer or aggregator out.
3. *Lingering*: it is refused, and has a moment to take the reason. With one too many it goes without a word.

A server holds fewer than it might where the process may open few files: half of them are left for everything else.
"""

from typing import NamedTuple

from ithaca.model.errors import Overloaded
from ithaca.model.limits import CONNECTIONS_MAX, CONNECTIONS_RESERVED, GREETINGS_MAX, LINGERING_MAX
from ithaca.protocol.greeting import Role


class Capacity(NamedTuple):
    """How many connections a server holds at each stage."""

    connections: int
    reserved: int
    """Of them, those that clients cannot have."""
    greetings: int
    lingering: int

    @property
    def clients(self) -> int:
        return self.connections - self.reserved


def capacity_of(descriptors: int) -> Capacity:
    """What a process holds that may open so many files.

    >>> capacity_of(1 << 20)
    Capacity(connections=4096, reserved=1024, greetings=256, lingering=64)
    >>> capacity_of(1024)
    Capacity(connections=476, reserved=119, greetings=29, lingering=7)
    """
    room, wanted = descriptors // 2, CONNECTIONS_MAX + GREETINGS_MAX + LINGERING_MAX
    if room >= wanted:
        return limited(CONNECTIONS_MAX, GREETINGS_MAX, LINGERING_MAX)
    greetings, lingering = max(1, GREETINGS_MAX * room // wanted), max(1, LINGERING_MAX * room // wanted)
    return limited(min(CONNECTIONS_MAX, max(1, room - greetings - lingering)), greetings, lingering)


def limited(connections: int, greetings: int, lingering: int) -> Capacity:
    """A capacity of so many connections, of which servers have their part."""
    return Capacity(connections, min(CONNECTIONS_RESERVED, connections // 4), greetings, lingering)


class Admission:
    """The connections of one server, by stage. They are compared by identity."""

    def __init__(self, capacity: Capacity, address: object) -> None:
        self.capacity = capacity
        self._address = address
        self._greeting: dict[object, None] = {}
        self._clients: set[object] = set()
        self._servers: set[object] = set()
        self._lingering: set[object] = set()

    @property
    def clients(self) -> int:
        """Clients that are connected."""
        return len(self._clients)

    @property
    def servers(self) -> int:
        """Servers that are connected."""
        return len(self._servers)

    @property
    def count(self) -> int:
        """Connections at any stage."""
        return len(self._greeting) + len(self._clients) + len(self._servers) + len(self._lingering)

    def arrived(self, connection: object) -> object | None:
        """One has come; returns the one that has to go for it."""
        self._greeting[connection] = None
        return next(iter(self._greeting)) if len(self._greeting) > self.capacity.greetings else None

    def admit(self, connection: object, role: Role) -> None:
        """It has said hello; `Overloaded` when nobody of its role can be admitted now."""
        capacity, admitted = self.capacity, len(self._clients) + len(self._servers)
        if role == "client" and (len(self._clients) >= capacity.clients or admitted >= capacity.connections):
            raise Overloaded(
                f"{self._address} holds {len(self._clients)} connections of clients already, and no more than "
                f"{capacity.clients}: close some, or try again later"
            )
        if admitted >= capacity.connections:
            raise Overloaded(f"{self._address} holds {admitted} connections already: try again later")
        self._greeting.pop(connection, None)
        (self._clients if role == "client" else self._servers).add(connection)

    def linger(self, connection: object) -> bool:
        """It is refused, and counts no more; whether it may still be told why."""
        self.left(connection)
        if len(self._lingering) >= self.capacity.lingering:
            return False
        self._lingering.add(connection)
        return True

    def left(self, connection: object) -> None:
        """It has ended."""
        self._greeting.pop(connection, None)
        for each in (self._clients, self._servers, self._lingering):
            each.discard(connection)
