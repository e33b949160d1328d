"""Planted bugs of connections: who is admitted, and what unfinished frames hold."""

from tests.planted.bug import Bug

CONNECTIONS = (
    Bug(
        "connections-clients-take-all",
        "clients may have every connection of a server, and keep servers out",
        "ithaca.runtime.admission",
        'if role == "client" and (len(self._clients) >= capacity.clients or admitted >= capacity.connections):',
        'if role == "client" and admitted >= capacity.connections:',
        needs=lambda drawn: drawn.flood > 0,
    ),
    Bug(
        "connections-not-given-back",
        "a server that was connected counts for ever",
        "ithaca.runtime.admission",
        "for each in (self._clients, self._servers, self._lingering):",
        "for each in (self._clients, self._lingering):",
    ),
    Bug(
        "frames-held-by-the-lost",
        "what an unfinished frame holds is not given back when its connection ends",
        "ithaca.runtime.frame_budget",
        "self._release(connection)\n        wanted = self._wanted.pop(connection, None)",
        "wanted = self._wanted.pop(connection, None)",
        needs=lambda drawn: drawn.flood > 0,
    ),
    Bug(
        "frames-nobody-let-in",
        "whoever waits for room is not let in when a frame is complete",
        "ithaca.runtime.frame_budget",
        "                self._wait(connection, side, length, received)\n        self._serve()",
        "                self._wait(connection, side, length, received)",
        needs=lambda drawn: drawn.flood > 0,
    ),
)
