"""What the Raft group agrees on, as its state machine: `ProjectionState`, entry by entry."""

from collections.abc import Iterator

import msgspec

from ithaca.engines.corfu.sequencing.commands import Command, Outcome
from ithaca.engines.corfu.sequencing.state import ProjectionState

_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


def encoded(command: Command) -> bytes:
    """The payload of an entry."""
    return msgspec.msgpack.encode(command)


class ProjectionMachine:
    """The state on this server. After a snapshot came, `state` is another object."""

    def __init__(self) -> None:
        self.state = ProjectionState()

    def apply(self, index: int, term: int, data: bytes) -> Outcome:
        return self.state.apply(index, _decoder.decode(data))

    def snapshot(self) -> Iterator[bytes]:
        return iter((self.state.snapshot(),))

    def restore(self, index: int, data: bytes) -> None:
        self.state = ProjectionState.restored(data)
