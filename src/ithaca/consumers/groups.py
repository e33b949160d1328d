"""The groups of a log, as one leader has heard of their members during its term. Pure.

Nothing of it is agreed on, or kept: a new leader learns of the members from their next beats, and leaves parts to those
who have opened them last until it has waited for as long as a lease.
"""

from ithaca.consumers.assigning import Assignment
from ithaca.consumers.table import ConsumerTable
from ithaca.model.consumers import ConsumerRefused, ConsumerState, refusal_error
from ithaca.model.errors import Overloaded
from ithaca.model.groups import GroupBeat, GroupMember, GroupTold
from ithaca.model.limits import GROUP_MEMBERS_MAX


class GroupBook:
    """The members of all groups."""

    def __init__(self, since_s: float) -> None:
        """The leader leads since then, by the clock that never falls which all else here goes by."""
        self._since_s = since_s
        self._groups: dict[str, tuple[int, Assignment]] = {}
        """By name: the stamp with which it was made, and who has what."""

    def beat(self, table: ConsumerTable, beat: GroupBeat, now_s: float) -> GroupTold:
        """A member was heard of; `NoSuchConsumer` if there is no such group."""
        group = _group(table, beat.name)
        made, assignment = self._groups.get(beat.name, (0, None))
        owners = [part.owner for part in group.parts]
        if assignment is None or made != group.made:
            assignment = Assignment(owners, self._since_s)
        if len(assignment) >= GROUP_MEMBERS_MAX and beat.member not in assignment:
            raise Overloaded(f"group {beat.name!r} has {len(assignment)} members, and {GROUP_MEMBERS_MAX} is the most")
        told = assignment.step(beat, owners, now_s)
        self._groups[beat.name] = group.made, assignment
        if len(self._groups) > len(table):  # some are not there any more
            self._groups = {name: each for name, each in self._groups.items() if name in table.by_name}
        return told

    def members(self, table: ConsumerTable, name: str, now_s: float) -> tuple[GroupMember, ...]:
        """Those of one group; `NoSuchConsumer` if there is none."""
        group = _group(table, name)
        made, assignment = self._groups.get(name, (0, None))
        return () if assignment is None or made != group.made else assignment.members(now_s)


def _group(table: ConsumerTable, name: str) -> ConsumerState:
    group = table.by_name.get(name)
    if group is None or not group.is_group:
        raise refusal_error(ConsumerRefused(name, "unknown" if group is None else "group"))
    return group
