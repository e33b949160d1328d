"""The parts of a group that one member has, and how far it is with each. Pure.

A member reads the log once, from the least of its parts' positions on, and hands out what is in its parts: a record
with a key is in the part of `KeyFilter.part`, one without a key in part 0. So the *frontier*, behind what was handed
out last, is the position of every part that was not further already. When a part comes, reading begins again, and each
goes on where it was.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ithaca.model.consumers import CommitPosition, ConsumerOutcome, PartStands
from ithaca.model.records import HASH_SPACE, Record
from ithaca.wire.keys import hash_key


def part_of(key: bytes | None, count: int) -> int:
    """The part of a record with this key, of so many."""
    return 0 if key is None else ((hash_key(key) + 1) * count - 1) // HASH_SPACE


@dataclass(slots=True)
class _Part:
    epoch: int
    floor: int
    """Everything below was handed out before reading began at its present start."""
    committed: int
    left_at: int | None = None
    """Where it stood when it was asked back, or lost: nothing more of it is handed out."""


class HeldParts:
    """What one member has open."""

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.count = count
        self.frontier = 1
        self._parts: dict[int, _Part] = {}
        self._lost: dict[tuple[int, int], _Part] = {}
        """Those, by number and epoch, that are another's, and of which records were handed out that were not committed:
        to commit them, with what was written or without, has to fail, also when the part has come back since."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """All that it has open, in their order."""
        return tuple(sorted(self._parts))

    @property
    def leaving(self) -> frozenset[int]:
        """Those among them that were asked back."""
        return frozenset(number for number, part in self._parts.items() if part.left_at is not None)

    @property
    def finished(self) -> frozenset[int]:
        """Those among these of which all that was handed out is committed."""
        return frozenset(number for number, part in self._parts.items() if part.left_at == part.committed)

    @property
    def position(self) -> int:
        """Behind everything that was handed out, also of parts that were asked back or lost."""
        return max([self.frontier, *map(self._position, (*self._parts.values(), *self._lost.values()))])

    @property
    def start(self) -> int | None:
        """Where reading has to begin; None if there is nothing to read."""
        return min((self._position(part) for part in self._parts.values() if part.left_at is None), default=None)

    @property
    def committed(self) -> int:
        """Everything below was processed, as the log knows, in all parts that it has."""
        return min((part.committed for part in self._parts.values()), default=self.frontier)

    @property
    def epoch(self) -> int:
        """The newest of its parts'; 0 without any."""
        return max((part.epoch for part in self._parts.values()), default=0)

    @property
    def standing(self) -> tuple[PartStands, ...]:
        """Where each is, in their order."""
        parts = sorted(self._parts.items())
        return tuple(PartStands(self.name, number, part.epoch, self._position(part)) for number, part in parts)

    def _position(self, part: _Part) -> int:
        return max(part.floor, self.frontier) if part.left_at is None else part.left_at

    # What comes and goes

    def opened(self, stands: Iterable[PartStands]) -> None:
        """These are its own from now on."""
        self.rebase()
        for each in stands:
            self._parts[each.part] = _Part(each.epoch, each.position, each.position)

    def rebase(self) -> None:
        """Reading begins again: each part goes on where it is."""
        for part in self._parts.values():
            part.floor = self._position(part)
        self.frontier = 1

    def leave(self, numbers: Iterable[int]) -> None:
        """These were asked back: they stay its own until they are dropped."""
        for number in numbers:
            part = self._parts[number]
            part.left_at = self._position(part)

    def stay(self, numbers: Iterable[int]) -> None:
        """These were asked back, and are not any more: reading has to begin again."""
        self.rebase()
        for number in numbers:
            self._parts[number].left_at = None

    def drop(self, numbers: Iterable[int], *, is_known: bool = False) -> None:
        """These are not its own any more; `is_known`: whoever commits has been told."""
        for number in numbers:
            part = self._parts.pop(number)
            part.left_at = self._position(part)
            if part.left_at > part.committed and not is_known:
                self._lost[number, part.epoch] = part

    def clear(self) -> None:
        """Forget all of them, and what was handed out."""
        self._parts.clear()
        self._lost.clear()

    # Records

    def selected(self, records: Sequence[Record]) -> list[Record]:
        """Those that are to be handed out."""
        floors = {number: part.floor for number, part in self._parts.items() if part.left_at is None}
        count, none = self.count, 1 << 62
        return [each for each in records if each.position >= floors.get(part_of(each.key, count), none)]

    # Commits

    def commits(self, position: int | None = None) -> tuple[CommitPosition, ...]:
        """What commits all that was handed out, below `position` if it is given. Without news, a sign of life."""
        found = []
        lost = [(number, part) for (number, _), part in self._lost.items()]
        for number, part in sorted((*self._parts.items(), *lost), key=lambda each: (each[0], each[1].epoch)):
            reached = self._position(part) if position is None else min(position, self._position(part))
            if reached > part.committed:
                found.append(CommitPosition(self.name, number, part.epoch, reached))
        if not found and self._parts:
            number = min(self._parts)
            part = self._parts[number]
            found.append(CommitPosition(self.name, number, part.epoch, part.committed))
        return tuple(found)

    def settled(
        self, commits: Sequence[CommitPosition], outcomes: Sequence[ConsumerOutcome]
    ) -> tuple[CommitPosition, ...]:
        """What came of them; says which were refused, since they are another's."""
        refused = []
        for commit, outcome in zip(commits, outcomes, strict=True):
            part = self._parts.get(commit.part)
            self._lost.pop((commit.part, commit.epoch), None)
            if not isinstance(outcome, PartStands):
                refused.append(commit)
            elif part is not None and part.epoch == commit.epoch:
                part.committed = max(part.committed, outcome.position)
        return tuple(refused)

    def among(self, commits: Iterable[CommitPosition]) -> set[int]:
        """The parts of these that it still has as it had them then."""
        held = {number: part.epoch for number, part in self._parts.items()}
        return {each.part for each in commits if held.get(each.part) == each.epoch}
