"""Which replicas the leader has not heard of for too long. Soft state of one term, by the leader's clock alone.

What counts is time in which the leader itself was running: it looks again and again, and of the time between two
looks no more counts than it meant to let pass. So a leader that was paused, and finds what was sent meanwhile in its
sockets, calls nobody silent before it has read that.
"""

from collections.abc import Collection, Iterable

Member = tuple[int, int]
"""A replica: the numbers of its shard and its own."""


class Liveness:
    """How long each replica has been silent.

    >>> liveness = Liveness(timeout_us=300, first_us=1000, look_us=100)
    >>> liveness.heard((0, 1))
    >>> for _ in range(3):
    ...     counted_us = liveness.look(150, {(0, 0), (0, 1)})
    >>> liveness.failed()
    [(0, 1)]
    """

    def __init__(self, *, timeout_us: int, first_us: int, look_us: int) -> None:
        """`first_us`: how long a replica may take to be heard of for the first time, if that is longer."""
        self._timeout_us = timeout_us
        self._begin_us = min(0, timeout_us - first_us)
        self._most_us = 2 * look_us
        self._silent_us: dict[Member, int] = {}
        self._known: set[Member] = set()
        """Of those that are watched, the ones that were heard of at all."""

    def heard(self, member: Member) -> None:
        """It lives."""
        self._silent_us[member] = 0
        self._known.add(member)

    def heard_all(self, members: Iterable[Member]) -> None:
        """They live."""
        heard = dict.fromkeys(members, 0)
        self._silent_us.update(heard)
        self._known.update(heard)

    def look(self, elapsed_us: int, members: Collection[Member]) -> int:
        """So much time has passed since the last look, and these are all that are to be watched; says what counts."""
        counted_us = min(elapsed_us, self._most_us)
        silent = self._silent_us
        self._silent_us = {each: silent.get(each, self._begin_us) + counted_us for each in members}
        self._known.intersection_update(members)
        return counted_us

    def is_alive(self, member: Member) -> bool:
        """Whether it was heard of, and not too long ago; of one that was never heard of nobody knows."""
        return member in self._known and not self.is_silent(member)

    def is_silent(self, member: Member) -> bool:
        """Whether it was silent for too long."""
        return self._silent_us.get(member, 0) >= self._timeout_us

    def failed(self) -> list[Member]:
        """Those that were silent for too long, in order."""
        return sorted(filter(self.is_silent, self._silent_us))
