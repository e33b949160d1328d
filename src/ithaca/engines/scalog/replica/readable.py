"""How far the order goes as it is known here, and how far of it can be read: invariant 6."""

from collections.abc import Mapping

from ithaca.engines.scalog.replica.events import Advanced
from ithaca.engines.scalog.replica.lanes import LaneCopy
from ithaca.model.positions import FIRST, LaneId


class Readable:
    """The positions `[first, limit)` can be read here, and `tail` is the next that will be given."""

    def __init__(self, lanes: Mapping[LaneId, LaneCopy]) -> None:
        self._lanes = lanes
        self._behind: dict[LaneId, LaneCopy] = {}
        """The lanes of which something that is ordered is missing here."""
        self.first = FIRST
        self.limit = FIRST
        self.tail = FIRST
        self._told = self._now(view=0)

    def note(self, copy: LaneCopy) -> None:
        """The copy has changed, or what is ordered of it."""
        if copy.lane in self._lanes and copy.is_behind:
            self._behind[copy.lane] = copy
        else:
            self._behind.pop(copy.lane, None)

    def is_behind(self, copy: LaneCopy) -> bool:
        return copy.lane in self._behind

    def lanes_behind(self) -> list[LaneCopy]:
        return list(self._behind.values())

    def knows_runs(self) -> bool:
        """Whether the position of every record that is ordered is known."""
        return not any(copy.lacks_runs for copy in self._behind.values())

    def look_again(self) -> None:
        """Something that is ordered has come, or more is ordered: how far can be read?

        What could be read once can be read for ever, so that the limit never falls; while something is not
        known of a lane, less may be derived than was known before.
        """
        limit = min((copy.limit(self.first) for copy in self._behind.values()), default=self.tail)
        self.limit = max(self.limit, self.first, min(limit, self.tail))

    def advanced(self, view: int) -> Advanced | None:
        """What is to be told, if it is not what was told last."""
        now = self._now(view)
        if now == self._told:
            return None
        self._told = now
        return now

    def _now(self, view: int) -> Advanced:
        return Advanced(self.tail, self.limit, self.first, view)
