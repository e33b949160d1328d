"""What stands between a client and the server that takes its messages, where a cluster has users."""

from typing import Protocol

from ithaca.protocol.codec import Message, Received
from ithaca.users.caller import Caller


class Passage(Protocol):
    """One client's connection, judged by what that client may do."""

    @property
    def caller(self) -> Caller:
        """Who the client is."""

    def passed(self, received: Received) -> Received | None:
        """What is passed on of a message; None if it was answered already. Raises what ends the connection."""

    def worded(self, message: Message) -> Message:
        """An answer in the client's words."""

    def settled(self, correlation: int) -> None:
        """A request was answered."""

    def sent(self, size: int) -> None:
        """So many bytes beside a message are on their way to it."""

    @property
    def wait_s(self) -> float:
        """How long to wait before more is streamed to it; 0 for now."""

    async def paced(self) -> None:
        """Until more may be streamed to it."""
