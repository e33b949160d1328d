"""Messages of one kind that came one behind the other: decoded in one go, and handed to whoever takes them at once.

A leader with many shards gets hundreds of small reports with each read from a socket. What is decided about them is
decided once for all, and what each costs by itself, from its frame to its handler, is most of what it costs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from ithaca.protocol.codec import Message, decode_plain, number_of
from ithaca.wire.frame import Frame


class Source(Protocol):
    """The connection over which messages came."""

    @property
    def is_open(self) -> bool: ...


Take = Callable[[Any, Sequence[Any]], None]


class Together(NamedTuple):
    """Messages of this kind are taken together."""

    number: int
    """Of their frames."""
    take: Take
    """Takes several in the order in which they came, and raises what ends the connection."""

    @classmethod
    def of(cls, kind: type[Message], take: Take) -> "Together":
        return cls(number_of(kind), take)

    def pass_on(self, connection: Source, frames: Sequence[Frame], receive: Callable[[Frame], None]) -> None:
        """Have all of them taken in their order, as long as the connection is open: by `receive`, but for several
        messages of this kind that are next to each other."""
        for run in self._runs(frames):
            messages = decode_plain(self.number, run) if len(run) > 1 else []
            if messages:
                self.take(connection, messages)
                if not connection.is_open:
                    return
                continue
            for frame in run:  # of several that are here one is malformed: those before it are taken
                receive(frame)
                if not connection.is_open:
                    return

    def _runs(self, frames: Sequence[Frame]) -> Iterator[Sequence[Frame]]:
        """Those that may be taken together, and each of the others by itself."""
        start = 0
        while start < len(frames):
            stop = start
            while stop < len(frames) and frames[stop].type == self.number and not frames[stop].flags:
                stop += 1
            stop = max(stop, start + 1)
            yield frames[start:stop]
            start = stop
