"""Who is in the group: the configurations in the log, of which the latest counts (thesis §4.1).

A configuration takes effect when it is appended, not when it is committed; so a truncation of the log
takes it back. One change of one server at a time: then any majority before and any after overlap.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from ithaca.model.limits import RAFT_MEMBERS_MAX
from ithaca.model.quorum import majority
from ithaca.raft.events import ChangeMembership, Reason
from ithaca.raft.messages import Configuration, Entry, EntryKind, ServerId, Snapshot, configuration_of


class Membership:
    """The configuration at every index since the snapshot."""

    __slots__ = ("_history",)

    def __init__(self, snapshot: Snapshot) -> None:
        self._history: list[tuple[int, Configuration]] = []
        self.restore(snapshot)

    @property
    def current(self) -> Configuration:
        return self._history[-1][1]

    @property
    def index(self) -> int:
        """Where the current configuration stands in the log."""
        return self._history[-1][0]

    def at(self, index: int) -> Configuration:
        """The configuration in effect at an index at or after the snapshot."""
        return next(configuration for start, configuration in reversed(self._history) if start <= index)

    def since(self, index: int) -> list[Configuration]:
        """The configuration in effect at `index`, and all after it."""
        return [self.at(index), *(configuration for start, configuration in self._history if start > index)]

    def append(self, entries: Iterable[Entry]) -> bool:
        """Note the configurations among new entries; tells whether there was one."""
        found = False
        for entry in entries:
            if entry.kind is EntryKind.CONFIGURATION:
                self._history.append((entry.index, configuration_of(entry)))
                found = True
        return found

    def truncate(self, index: int) -> None:
        while self._history[-1][0] >= index:
            self._history.pop()
            assert self._history, f"truncation at {index} reached the snapshot"

    def compact(self, index: int) -> None:
        """Forget configurations that ended before `index`."""
        while len(self._history) > 1 and self._history[1][0] <= index:
            del self._history[0]

    def restore(self, snapshot: Snapshot) -> None:
        self._history = [(snapshot.index, snapshot.configuration)]

    def is_quorum(self, agrees: Callable[[ServerId], bool]) -> bool:
        """Whether a majority of the voters agrees; without voters nobody ever does."""
        voters = self.current.voters
        return sum(map(agrees, voters)) >= majority(len(voters))

    def majority_value(self, value: Callable[[ServerId], int]) -> int:
        """The largest value that a majority of the voters has reached."""
        values = sorted(map(value, self.current.voters))
        return values[-majority(len(values))] if values else 0


def changed(now: Configuration, event: ChangeMembership) -> Configuration | Reason:
    """The configuration after a change, or why there is none."""
    server, voters, learners = event.server, now.voters, now.learners
    if event.change == "add learner":
        if server in now.members:
            return "already a member"
        if len(now.members) >= RAFT_MEMBERS_MAX:
            return "too many members"
        addresses_left = (
            now.addresses if event.address is None else tuple(sorted((*now.addresses, (server, event.address))))
        )
        return replace(now, learners=_sorted((*learners, server)), addresses=addresses_left)
    if event.change == "promote":
        if server in voters:
            return "already a member"
        if server not in learners:
            return "no such member"
        return replace(now, voters=_sorted((*voters, server)), learners=_without(learners, server))
    if server not in now.members:
        return "no such member"
    if voters == (server,):
        return "last voter"
    addresses_left = tuple(each for each in now.addresses if each[0] != server)
    after = Configuration(_without(voters, server), _without(learners, server), addresses_left, now.removed_last)
    return after if server < after.last else replace(after, removed_last=server)


def _sorted(servers: Iterable[ServerId]) -> tuple[ServerId, ...]:
    return tuple(sorted(servers))


def _without(servers: Sequence[ServerId], server: ServerId) -> tuple[ServerId, ...]:
    return tuple(other for other in servers if other != server)
