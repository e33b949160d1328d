"""What a command may know of where it is being applied: the same on every replica.

A deterministic method must not ask for the time, for chance or for names. What it needs of them is in its record: the
position, and the time of whoever proposed it. Time never goes back from one command to the next.
"""

import threading
from random import Random

import msgspec

from ithaca.model.errors import InvalidInput


class Context(msgspec.Struct, frozen=True, gc=False):
    """Where the command that is being applied stands, and when it was proposed.

    >>> Context(position=7, time_us=1_700_000_000_000_000).random().random() == Context(7, 0).random().random()
    True
    """

    position: int
    time_us: int

    @property
    def time_s(self) -> float:
        """Seconds since 1970 (UTC), by the proposer's clock."""
        return self.time_us / 1e6

    def random(self) -> Random:
        """Chance that is the same on every replica."""
        return Random(self.position)


class Moment:
    """Where a machine is while it applies commands: changed from one to the next, since making one takes time."""

    __slots__ = ("position", "time_us")

    def __init__(self, position: int = 0, time_us: int = 0) -> None:
        self.position = position
        self.time_us = time_us


class _Applying(threading.local):
    moment: Moment | None = None


APPLYING = _Applying()


def current() -> Context:
    """The context of the command that is being applied, in a method that was proposed.

    >>> import ithaca, ithaca.objects
    >>> class Visits:
    ...     def __init__(self) -> None:
    ...         self.last = 0
    ...     def visit(self) -> None:
    ...         self.last = ithaca.objects.current().position
    >>> with ithaca.open("./visits") as log, ithaca.objects.replicate(log, Visits, name="visits") as visits:
    ...     visits.propose(Visits.visit)
    ...     visits.read(lambda state: state.last > 0)
    True
    """
    moment = APPLYING.moment
    if moment is None:
        raise InvalidInput("no command is being applied: call this in a method that is proposed to a replica")
    return Context(moment.position, moment.time_us)
