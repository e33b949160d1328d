"""Consumers that nobody uses: which of them expire. Pure.

A leader counts from when it first saw a consumer with the stamp that it has. So it never says too early that one is
idle, whatever clocks show; who leads for less long than that lets consumers live longer.
"""

from collections.abc import Mapping

from ithaca.consumers.table import ConsumerTable
from ithaca.model.consumers import ExpireConsumer
from ithaca.model.limits import CONSUMER_COMMANDS_MAX


class IdleConsumers:
    """What one leader has seen of consumers, during its term, or one process that has a directory open."""

    def __init__(self, idle_s: float, seen: Mapping[str, tuple[int, float]] | None = None) -> None:
        """`seen` is what is known before the first look."""
        self._idle_s = idle_s
        self._seen: dict[str, tuple[int, float]] = dict(seen or {})
        """By name: its stamp, and since when it has that."""

    def look(self, table: ConsumerTable, now_s: float) -> list[ExpireConsumer]:
        """What is to be agreed on now; `now_s` is a clock that never falls."""
        seen: dict[str, tuple[int, float]] = {}
        for name, consumer in table.by_name.items():
            stamp, since_s = self._seen.get(name, (0, now_s))
            seen[name] = (consumer.stamp, since_s if stamp == consumer.stamp else now_s)
        self._seen = seen
        idle = [
            ExpireConsumer(name, stamp) for name, (stamp, since_s) in seen.items() if now_s - since_s >= self._idle_s
        ]
        return idle[:CONSUMER_COMMANDS_MAX]
