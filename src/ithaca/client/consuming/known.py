"""The consumers that a log has, and how they are shown."""

from typing import NamedTuple

from ithaca.model.consumers import ConsumerInfo, ConsumerState, Lag


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
