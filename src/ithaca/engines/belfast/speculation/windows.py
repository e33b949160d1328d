"""Slots: which positions a window reserves for which lane, as arithmetic (SpecLog §3.2, §4.4, §4.7).

A window has `rounds` rounds. A round has one cut for each of `groups` groups of lanes, in their order; a lane has
slots in the cut of its group. All cuts ever ordered are numbered in one sequence, from 0.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ithaca.model.positions import LaneId


class Slot(NamedTuple):
    """Whose position it is: slot number `rank` of those that `lane` has in round `round_`."""

    lane: LaneId
    round_: int
    rank: int


@dataclass(frozen=True)
class Layout:
    """How the slots of one round are shared out: lanes in order, lane number k in group k modulo `groups`.

    Equal layouts give equal slots, so that windows of one layout that follow each other are kept as one.
    """

    groups: int
    lanes: tuple[LaneId, ...]
    quotas: tuple[int, ...]
    """Slots of each lane, or one number for all."""

    @cached_property
    def _in_slot_order(self) -> tuple[tuple[LaneId, int, int], ...]:
        """Lanes by (group, shard), each with its group and its slots."""
        quotas = self.quotas if len(self.quotas) == len(self.lanes) else self.quotas * len(self.lanes)
        rows = [(place % self.groups, lane, q) for place, (lane, q) in enumerate(zip(self.lanes, quotas, strict=True))]
        return tuple((lane, group, q) for group, lane, q in sorted(rows))

    @cached_property
    def _offsets(self) -> tuple[int, ...]:
        """Where the slots of each of those begin in a round, and where the last ones end."""
        offsets = [0]
        for _, _, q in self._in_slot_order:
            offsets.append(offsets[-1] + q)
        return tuple(offsets)

    @cached_property
    def shares(self) -> dict[LaneId, "LaneShare"]:
        """What each lane must know."""
        rows = zip(self._in_slot_order, self._offsets, strict=False)
        return {lane: LaneShare(lane, self.groups, group, offset, q, self.slots) for (lane, group, q), offset in rows}

    @cached_property
    def members(self) -> tuple[tuple[LaneId, ...], ...]:
        """The lanes of each group, in order."""
        found: list[list[LaneId]] = [[] for _ in range(self.groups)]
        for lane, group, _ in self._in_slot_order:
            found[group].append(lane)
        return tuple(map(tuple, found))

    @property
    def slots(self) -> int:
        """Of one round."""
        return self._offsets[-1]

    @cached_property
    def group_ends(self) -> tuple[int, ...]:
        """Where the slots of each group end in a round."""
        ends = [0] * self.groups
        for (_, group, _), stop in zip(self._in_slot_order, self._offsets[1:], strict=True):
            ends[group] = stop
        return tuple(ends)

    def owner(self, offset: int) -> tuple[LaneId, int]:
        """Whose slot this is in a round, and which of the lane's."""
        row = bisect_right(self._offsets, offset) - 1
        return self._in_slot_order[row][0], offset - self._offsets[row]


class LaneShare(NamedTuple):
    """What one lane has of every round of a layout: all that its shard is told, whatever the others have."""

    lane: LaneId
    groups: int
    group: int
    prefix: int
    """Where its slots begin in a round."""
    q: int
    slots: int
    """Of one round, of all lanes."""

    def owns(self, offset: int) -> bool:
        """Whether a place in a round is one of its slots."""
        return 0 <= offset - self.prefix < self.q


@dataclass(frozen=True)
class Share:
    """A lane's own part of one window."""

    number: int
    attempt: int
    base: int
    rounds: int
    first_cut: int
    of_round: LaneShare

    @property
    def end(self) -> int:
        """The position behind the window."""
        return self.base + self.rounds * self.of_round.slots

    @property
    def end_cut(self) -> int:
        return self.first_cut + self.rounds * self.of_round.groups

    @property
    def q(self) -> int:
        return self.of_round.q

    def own_cut(self, cut: int) -> int | None:
        """The first cut of this window, from `cut` on, in which the lane has slots."""
        first = self.first_cut + self.of_round.group
        if cut > first:
            first += -(-(cut - first) // self.of_round.groups) * self.of_round.groups
        return first if first < self.end_cut else None

    def start(self, cut: int) -> int:
        """The lane's first position in one of its cuts."""
        round_, group = divmod(cut - self.first_cut, self.of_round.groups)
        assert group == self.of_round.group, f"cut {cut} has no slots of {self.of_round}"
        assert 0 <= round_ < self.rounds, f"cut {cut} is not in window {self.number}"
        return self.base + round_ * self.of_round.slots + self.of_round.prefix


@dataclass(frozen=True)
class Window:
    """A window of slots as it was ordered."""

    number: int
    base: int
    rounds: int
    layout: Layout
    attempt: int
    first_cut: int

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.base + self.rounds * self.layout.slots

    @property
    def end_cut(self) -> int:
        return self.first_cut + self.rounds * self.layout.groups

    def share(self, lane: LaneId) -> Share | None:
        """None for a lane that has no slots here."""
        return self._shares.get(lane)

    @cached_property
    def _shares(self) -> dict[LaneId, Share]:
        return {
            lane: Share(self.number, self.attempt, self.base, self.rounds, self.first_cut, of_round)
            for lane, of_round in self.layout.shares.items()
        }

    def round_of(self, cut: int) -> int:
        """The round that a cut of this window belongs to."""
        return (cut - self.first_cut) // self.layout.groups

    def lanes_in(self, cut: int) -> tuple[LaneId, ...]:
        """The lanes that have slots in a cut, in order."""
        return self.layout.members[(cut - self.first_cut) % self.layout.groups]

    def cut_end(self, cut: int) -> int:
        """The position behind a cut of this window."""
        round_, group = divmod(cut - self.first_cut, self.layout.groups)
        return self.base + round_ * self.layout.slots + self.layout.group_ends[group]

    def cut_of(self, position: int) -> int:
        """The cut that a position belongs to."""
        round_, offset = divmod(position - self.base, self.layout.slots)
        return self.first_cut + round_ * self.layout.groups + bisect_right(self.layout.group_ends, offset)

    def slot(self, position: int) -> Slot:
        """Whose position it is."""
        assert self.base <= position < self.end, f"position {position} is not in window {self.number}"
        round_, offset = divmod(position - self.base, self.layout.slots)
        lane, rank = self.layout.owner(offset)
        return Slot(lane, round_, rank)
