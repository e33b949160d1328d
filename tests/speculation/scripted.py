"""A speculative reader that tells what a script says, in both twins."""

from collections.abc import Sequence

from ithaca.model import interface
from ithaca.model.interface import awaited
from ithaca.model.records import Record
from ithaca.model.speculation import Confirmed, Delivered, Failed, SpeculativeEvent
from ithaca.model.units import Duration


def record(position: int, value: bytes = b"") -> Record:
    return Record(position=position, value=value, key=None, timestamp_us=0, shard=0)


def delivered(*positions: int, attempt: int = 0) -> list[SpeculativeEvent]:
    return [Delivered(record(position, b"%d" % position), attempt) for position in positions]


class Scripted(interface.Speculation):
    """Groups of events, one for each take; then it is closed."""

    def __init__(self, groups: Sequence[Sequence[SpeculativeEvent]], position: int = 1) -> None:
        self._groups = [list(group) for group in groups]
        self._position = position
        self.closed = 0

    @property
    def position(self) -> int:
        return self._position

    def __next__(self) -> SpeculativeEvent:
        raise StopIteration

    def take(self, timeout: Duration | None = None) -> list[SpeculativeEvent]:
        return self._groups.pop(0) if self._groups and not self.closed else []

    def close(self) -> None:
        self.closed += 1


class AwaitedScripted(awaited.Speculation):
    """The same, awaited."""

    def __init__(self, groups: Sequence[Sequence[SpeculativeEvent]], position: int = 1) -> None:
        self.twin = Scripted(groups, position)
        self.entered = False

    @property
    def position(self) -> int:
        assert self.entered
        return self.twin.position

    async def __aenter__(self) -> "AwaitedScripted":
        self.entered = True
        return self

    async def __anext__(self) -> SpeculativeEvent:
        raise StopAsyncIteration

    async def take(self, timeout: Duration | None = None) -> list[SpeculativeEvent]:
        return self.twin.take(timeout)

    async def close(self) -> None:
        self.twin.close()


__all__ = ["AwaitedScripted", "Confirmed", "Failed", "Scripted", "delivered", "record"]
