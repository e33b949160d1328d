"""The consumers that a log has, and how they are shown."""

from typing import NamedTuple

from ithaca.model import interface
from ithaca.model.consumers import CommitPosition, ConsumerInfo, ConsumerState, Lag
from ithaca.model.errors import InvalidInput
from ithaca.model.interface import awaited
from ithaca.model.interface.shared import Consumed
from ithaca.runtime.checks import check_position


class Known(NamedTuple):
    """All of them, and the time by the clock that says when they were used."""

    time_us: int
    consumers: tuple[ConsumerState, ...]

    def find(self, name: str) -> ConsumerState | None:
        return next((each for each in self.consumers if each.name == name), None)


def info_of(consumer: ConsumerState, lag: Lag, time_us: int) -> ConsumerInfo:
    """How a consumer is shown that is so far behind."""
    return ConsumerInfo(
        consumer.name,
        consumer.position,
        tuple(part.position for part in consumer.parts),
        lag.positions,
        lag.records,
        lag.seconds,
        max(0, time_us - consumer.used_us) / 1e6,
        consumer.is_group,
    )


def commits_of(consumed: Consumed | None) -> tuple[CommitPosition, ...]:
    """What a publication commits; `InvalidInput` for what is no handle of a consumer, or no position."""
    if consumed is None:
        return ()
    commits = []
    for consumer, position in consumed.items():
        if not isinstance(consumer, interface.Consumer | awaited.Consumer):
            raise InvalidInput(f"{consumer!r} is no consumer: use {{consumer: position}} with a handle of log.consumer")
        check_position(position)
        commits.append(CommitPosition(consumer.name, 0, consumer.epoch, position))
    return tuple(commits)
