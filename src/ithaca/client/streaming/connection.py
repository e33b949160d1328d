"""The connection of a subscription's stream: one at a time, to one server and then to another, with backpressure.

Backpressure is TCP's: with too many bytes received and not taken, nothing more is read from the socket.
"""

from typing import Protocol

from ithaca.model.errors import IthacaError, Unavailable
from ithaca.model.limits import STREAM_BUFFER_BYTES_MAX
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.failures import error_of
from ithaca.protocol.greeting import Failure, Finished
from ithaca.runtime.connection import Connection, Peer


class StreamOwner(Protocol):
    """Who takes what the server says."""

    def delivered(self, received: Received) -> None:
        """What is neither an end nor a failure; raises `ProtocolError` for what does not belong to a stream."""

    def finished(self) -> None:
        """Everything up to the stop was delivered."""

    def refused(self, error: IthacaError) -> None:
        """The server does not go on, and says why."""

    def lost(self, error: IthacaError) -> None:
        """The connection has failed."""


class StreamConnection(Peer):
    """What is said over connections that were let go of is passed over."""

    def __init__(self, owner: StreamOwner) -> None:
        self._owner = owner
        self._connection: Connection | None = None
        self.is_over = False
        """Whether nothing more is taken."""
        self.is_paused = False
        self.buffered_bytes = 0

    async def attend(self, connection: Connection, question: Message) -> None:
        """Ask over this connection, and go on until it ends."""
        self._connection = connection
        connection.expect_deliveries()
        try:
            if self.is_paused:
                connection.pause_reading()
            connection.send(question, correlation=connection.next_correlation())
            await connection.wait_lost()
        finally:
            self._connection = None
            connection.close()

    def received(self, size: int) -> None:
        """So many bytes came, and were not taken yet."""
        self.buffered_bytes += size
        if self.buffered_bytes > STREAM_BUFFER_BYTES_MAX and not self.is_paused:
            self.is_paused = True
            if self._connection is not None:
                self._connection.pause_reading()

    def consumed(self, size: int) -> None:
        """So many bytes of what was received were taken."""
        self.buffered_bytes -= size
        if self.is_paused and self.buffered_bytes <= STREAM_BUFFER_BYTES_MAX // 2:
            self.is_paused = False
            if self._connection is not None:
                self._connection.resume_reading()

    def change_server(self) -> None:
        """This one is silent where it should not be: go on with another."""
        if self._connection is not None:
            self._connection.abort(Unavailable(f"{self._connection.name} is silent"))

    def close(self) -> None:
        """Nothing more is taken. Idempotent."""
        self.is_over = True
        if self._connection is not None:
            self._connection.close()

    def on_message(self, connection: Connection, received: Received) -> None:
        if self.is_over or connection is not self._connection:
            return
        match received.message:
            case Finished():
                self.close()
                self._owner.finished()
            case Failure() as failure:
                connection.close()
                self._owner.refused(error_of(failure))
            case _:
                self._owner.delivered(received)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        if error is not None:
            self._owner.lost(error)
