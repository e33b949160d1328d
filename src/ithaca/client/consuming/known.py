"""The consumers that a log has, and how they are shown."""

from collections.abc import Mapping
from typing import NamedTuple

from ithaca.model import interface
from ithaca.model.arguments import instance
from ithaca.model.consumers import CommitPosition, ConsumerInfo, ConsumerState, Lag
from ithaca.model.errors import InvalidInput, Trimmed
from ithaca.model.interface import awaited
from ithaca.model.interface.shared import Consumed
from ithaca.model.limits import GROUP_LABEL_BYTES_MAX
from ithaca.runtime.checks import check_position
from ithaca.runtime.machine import host_name, process_id, rng


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
        lag.bytes,
        max(0, time_us - consumer.used_us) / 1e6,
        consumer.is_group,
    )


def commits_of(consumed: Consumed | None) -> tuple[CommitPosition, ...]:
    """What a publication commits; `InvalidInput` for what is no handle of a consumer, or no position."""
    if consumed is None:
        return ()
    commits: list[CommitPosition] = []
    wanted = "{consumer: position} with a handle of log.consumer"
    instance(consumed, Mapping, "consumed", wanted)
    for consumer, position in consumed.items():
        if not isinstance(consumer, interface.Consumer | awaited.Consumer):
            raise InvalidInput(f"{consumer!r} is no consumer: use {wanted}")
        commits += consumer.commits(position)
    return tuple(commits)


def checked_commit(name: str, position: int, handed_out: int) -> None:
    """`InvalidInput` for a position that cannot be committed by who was handed out records below `handed_out`."""
    check_position(position)
    if position > handed_out:
        raise InvalidInput(
            f"consumer {name!r} cannot commit {position}: it was handed out records below {handed_out} only"
        )


def trimmed_error(name: str, position: int, error: Trimmed) -> Trimmed:
    """What a consumer is told that stands where nothing is left."""
    return Trimmed(
        f"consumer {name!r} stands at {position}, which was trimmed, and {error.first} is the first position left: "
        'reset it, such as with reset_consumer(name, "earliest")',
        first=error.first,
    )


def new_owner() -> int:
    """What tells this handle, or this question, from all others."""
    return rng().randrange(1, 1 << 61)


def own_label() -> str:
    """By which people know this process."""
    return f"{host_name()}:{process_id()}"[:GROUP_LABEL_BYTES_MAX]
