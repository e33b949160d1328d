"""Who has which part of one group: sticky, balanced, by leases. Pure: time comes in with what members say.

A part is *held* by one member or by none. A member that came takes its share from those who have more than theirs: so
many of their parts are *asked back*, as few as possible, and each goes on where its holder ends: when the holder says
that it does not hold it any more, or had as long as its lease to do so. A member that was not heard of for its lease,
or left, holds nothing. All this only proposes. What counts is who has opened a part last, which the table of consumers
says (`consumers.table`), and commits of anybody else are refused: so no clock can do harm.

What holds, and the tests cite these numbers:

1. No part is held by two members, and a part is given to nobody while a member that is alive may still hand it out.
2. Once nobody comes or goes, every part is held, and members have equally many but for one.
3. Between two steps no part is moved, or asked back, but to make it so.
4. A member that does nothing delays the parts that it holds, for its lease at most, and no others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ithaca.consumers.limits import GROUP_BEAT_S, GROUP_BEAT_SOON_S
from ithaca.model.groups import GroupBeat, GroupMember, GroupTold
from ithaca.model.limits import GROUP_LEASE_S


@dataclass(slots=True)
class _Member:
    number: int
    """In the order in which they came."""
    seen_s: float
    lease_s: float
    label: str = ""
    beat: int = 0
    """The newest that was heard: an older one, which came late, says what was."""
    parts: set[int] = field(default_factory=set)
    """Those that it holds: that it has open, or was told to open."""


class Assignment:
    """The members of one group, as one leader has heard of them."""

    def __init__(self, owners: Sequence[int], since_s: float) -> None:
        """`owners` have opened the parts last (0: nobody); since then this leader has waited for them to be heard."""
        self._count = len(owners)
        self._members: dict[int, _Member] = {}
        self._came = 0
        self._asked_back: dict[int, float] = {}
        """Parts that are held and wanted back, and until when their holders may finish."""
        for part, owner in enumerate(owners):
            if owner:
                self._member(owner, since_s).parts.add(part)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member: int) -> bool:
        return member in self._members

    def members(self, now_s: float) -> tuple[GroupMember, ...]:
        """All of them, in the order in which they came."""
        return tuple(
            GroupMember(
                name,
                each.label,
                tuple(sorted(each.parts)),
                tuple(sorted(each.parts & self._asked_back.keys())),
                max(0.0, now_s - each.seen_s),
                each.lease_s,
            )
            for name, each in self._members.items()
        )

    def step(self, beat: GroupBeat, owners: Sequence[int], now_s: float) -> GroupTold:
        """A member was heard of; `owners` have opened the parts last, as is agreed on. What it is told."""
        self._expire(now_s)
        if beat.is_leaving:
            self._forget(beat.member)
            self._balance(now_s)
            return GroupTold(self._count, (), (), _ms(GROUP_BEAT_S))
        member = self._member(beat.member, now_s)
        held = {part for part in beat.holds if part < self._count and owners[part] == beat.member}
        if beat.number > member.beat:
            self._hear(member, beat, held, now_s)
        self._balance(now_s)
        fenced = set(beat.holds) - held
        back = member.parts & self._asked_back.keys()
        is_short = len(member.parts) < self._quota()[beat.member]
        return GroupTold(
            self._count,
            tuple(sorted(member.parts - back - fenced)),
            tuple(sorted(back - fenced)),
            _ms(GROUP_BEAT_SOON_S if is_short or back else GROUP_BEAT_S),
        )

    def _hear(self, member: _Member, beat: GroupBeat, held: set[int], now_s: float) -> None:
        member.beat, member.seen_s, member.lease_s, member.label = beat.number, now_s, beat.lease_ms / 1000, beat.label
        for part in (member.parts & self._asked_back.keys()) - held:  # it has finished them
            self._free(member, part)
        member.parts |= held.difference(*(each.parts for each in self._members.values()))

    def _member(self, name: int, now_s: float) -> _Member:
        if name not in self._members:
            self._came += 1
            self._members[name] = _Member(self._came, now_s, GROUP_LEASE_S)
        return self._members[name]

    def _expire(self, now_s: float) -> None:
        for name, member in list(self._members.items()):
            if now_s - member.seen_s >= member.lease_s:
                self._forget(name)
        for member in self._members.values():
            for part in sorted(member.parts & self._asked_back.keys()):
                if now_s >= self._asked_back[part]:
                    self._free(member, part)

    def _forget(self, name: int) -> None:
        member = self._members.pop(name, None)
        if member is not None:
            for part in sorted(member.parts):
                self._free(member, part)

    def _free(self, member: _Member, part: int) -> None:
        member.parts.discard(part)
        self._asked_back.pop(part, None)

    def _quota(self) -> dict[int, int]:
        """How many parts each is to have: those who have more keep one more, where it cannot be equal."""
        order = sorted(self._members.items(), key=lambda each: (-len(each[1].parts), each[1].number))
        least, more = divmod(self._count, max(1, len(order)))
        return {name: least + (place < more) for place, (name, _) in enumerate(order)}

    def _balance(self, now_s: float) -> None:
        """Give away what nobody holds, and ask back what some have too much of."""
        if not self._members:
            return
        quota = self._quota()
        free = set(range(self._count)).difference(*(each.parts for each in self._members.values()))
        for part in sorted(free):
            name = max(self._members, key=lambda each: quota[each] - len(self._members[each].parts))
            self._members[name].parts.add(part)
        for name, member in self._members.items():
            extra = max(0, len(member.parts) - quota[name])
            back = sorted(member.parts, key=lambda part: (self._asked_back.get(part, float("inf")), -part))
            for part in back[:extra]:
                self._asked_back.setdefault(part, now_s + member.lease_s)
            for part in back[extra:]:
                self._asked_back.pop(part, None)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
