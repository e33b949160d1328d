"""The consumers that a log has, and how they are shown."""

from typing import NamedTuple

from ithaca.model.consumers import Consumer, ConsumerInfo


class Known(NamedTuple):
    """All of them, and the time by the clock that says when they were used."""

    time_us: int
    consumers: tuple[Consumer, ...]

    def find(self, name: str) -> Consumer | None:
        return next((each for each in self.consumers if each.name == name), None)


def info_of(consumer: Consumer, tail: int, time_us: int, is_dense: bool) -> ConsumerInfo:
    """How a consumer is shown, on a log that ends here."""
    behind = max(0, tail - consumer.position)
    return ConsumerInfo(
        consumer.name,
        consumer.position,
        tuple(part.position for part in consumer.parts),
        behind,
        behind if is_dense or not behind else None,
        max(0, time_us - consumer.used_us) / 1e6,
        consumer.is_group,
    )
