"""Reports of replicas, and what they add up to: how much of each lane is durable (Scalog §4.1).

A report is cumulative: a later one says all that an earlier one said, so any may be lost, repeated or
overtaken. A lane's durable length is the largest that f+1 replicas of the shard have synced: of f+1 replicas
the minimum, with masking the (f+1)-th largest (§4.4.2).
"""

from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.engines.scalog.ordering.outcomes import OrderedCut
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.cut import lane_key
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import (
    BOOT_MAX,
    LANE_RECORDS_MAX,
    PART_INCARNATION_MIN,
    REPLICA_NUMBER_MAX,
    REPORT_LANES_MAX,
    SHARD_NUMBER_MAX,
    SHARD_REPLICAS_MAX,
)
from ithaca.model.positions import LaneId
from ithaca.model.view import Shard


class Report(msgspec.Struct, frozen=True, array_like=True):
    """What one replica has synced, of its own lane and of its peers'.

    Members report at least every open lane of their shard; a learner every lane it holds, in several reports if they
    are more than fit into one. `runs_cut` is the newest cut up to which the replica has synced the runs of all lanes.
    """

    shard: Annotated[int, Meta(ge=0, le=SHARD_NUMBER_MAX)]
    epoch: Annotated[int, Meta(ge=1)]
    replica: Annotated[int, Meta(ge=0, le=REPLICA_NUMBER_MAX)]
    boot: Annotated[int, Meta(ge=1, le=BOOT_MAX)]
    runs_cut: Annotated[int, Meta(ge=0)]
    lengths: Annotated[
        tuple[tuple[LaneId, Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)]], ...], Meta(max_length=REPORT_LANES_MAX)
    ]

    def __post_init__(self) -> None:
        shard = self.shard
        for lane, _ in self.lengths:
            if lane[0] != shard:
                raise InvalidInput(f"replica {self.replica} of shard {shard} reports on lane {lane} of another")


class _Held:
    """The maxima of one boot of one replica."""

    __slots__ = ("boot", "lengths", "runs_cut")

    def __init__(self, boot: int) -> None:
        self.boot = boot
        self.runs_cut = 0
        self.lengths: dict[LaneId, int] = {}

    def raise_to(self, report: Report, is_known: Callable[[LaneId], bool]) -> bool:
        """Of lanes that are not there, which may come, a bounded number is kept. Says whether there are parts."""
        if report.runs_cut > self.runs_cut:
            self.runs_cut = report.runs_cut
        lengths, has_parts = self.lengths, False
        for lane, length in report.lengths:
            if lane[2] >= PART_INCARNATION_MIN:
                has_parts = True
            known = lengths.get(lane)
            if known is None:
                if length and (len(lengths) < REPORT_LANES_MAX or is_known(lane)):
                    lengths[lane] = length
            elif length > known:
                lengths[lane] = length
        return has_parts


class _Group:
    """The newest reports from one shard under one epoch, of learners too."""

    __slots__ = ("_counting", "_held", "copies", "epoch", "lanes", "shard")

    def __init__(self, shard: Shard) -> None:
        self._held: dict[int, _Held] = {}
        self.follow(shard)

    def follow(self, shard: Shard) -> None:
        """The shard has changed, but not its configuration."""
        self.shard = shard
        self.epoch, self.copies = shard.epoch, shard.copies
        self.lanes = [(lane_key(lane), lane) for lane in shard.open_lanes()]
        self._counting: list[_Held] | None = None

    @property
    def held(self) -> Mapping[int, _Held]:
        """Of each replica the maxima of its newest boot."""
        return self._held

    def hold(self, replica: int, held: _Held | None) -> None:
        """A replica has begun to report, or what it has reported is not there any more."""
        self._counting = None
        if held is None:
            del self._held[replica]
        else:
            self._held[replica] = held

    def members(self) -> list[_Held]:
        """What counts: a replica that was started again may have lost what it reported before."""
        if self._counting is None:
            found = ((each, self._held.get(each.replica)) for each in self.shard.replicas)
            self._counting = [held for each, held in found if held is not None and held.boot >= each.boot]
        return self._counting

    def durable(self) -> list[tuple[int, int]]:
        """The key and the durable length of each open lane."""
        copies, lengths = self.copies, [held.lengths for held in self.members()]
        if len(lengths) == copies == 2:  # nearly every shard
            one, other = lengths[0].get, lengths[1].get
            return [(key, min(one(lane, 0), other(lane, 0))) for key, lane in self.lanes]
        return [(key, _largest(copies, [of.get(lane, 0) for of in lengths])) for key, lane in self.lanes]

    def runs_cut(self) -> int:
        """The newest cut whose runs enough members have synced, with all before it."""
        return _largest(self.copies, [held.runs_cut for held in self.members()])


class Reports:
    """The newest report of each replica. Soft state: a new leader starts with none."""

    def __init__(self, state: OrderingState) -> None:
        self._state = state
        self._groups: dict[int, _Group] = {}
        self._cut_before = state.cut_number
        self._newest_cut: dict[int, int] = {}
        """Of each shard that was ordered something of since `_cut_before`."""

    def ordered(self, cut: OrderedCut) -> None:
        """A cut was applied."""
        for shard in cut.shards:
            self._newest_cut[shard] = cut.number

    def receive(self, report: Report) -> bool:
        """Keep the maxima; False for a report that is stale or from nowhere."""
        group = self._group(report.shard)
        if group is None or report.epoch != group.epoch:
            return False
        held = group.held.get(report.replica)
        if held is None or report.boot > held.boot:
            if not _may_start(group, report):
                return False
            held = _Held(report.boot)
            group.hold(report.replica, held)
        elif report.boot < held.boot:
            return False
        if held.raise_to(report, self._is_known) and group.shard.find(report.replica) is not None:
            self._forget_settled(held, report)
        return True

    def durable(self, shard: int) -> list[tuple[int, int]]:
        """The key and the durable length of each open lane of the shard."""
        group = self._group(shard)
        return [] if group is None else group.durable()

    def synced(self, shard: int) -> tuple[list[tuple[int, int]], int]:
        """Both `durable` and `runs_cut`."""
        group = self._group(shard)
        return ([], 0) if group is None else (group.durable(), group.runs_cut())

    def durable_length(self, lane: LaneId) -> int:
        """How much of a lane, which may be a part, f+1 replicas of its shard have synced."""
        group = self._group(lane.shard)
        if group is None:
            return 0
        return _largest(group.copies, [held.lengths.get(lane, 0) for held in group.members()])

    def lengths_of(self, shard: int, replica: int) -> Mapping[LaneId, int]:
        """How much of each lane a replica has synced, by all of its reports since it started."""
        group = self._group(shard)
        held = None if group is None else group.held.get(replica)
        return {} if held is None else held.lengths

    def forget(self, lane: LaneId) -> None:
        """Nobody asks for this part any more."""
        group = self._groups.get(lane.shard)
        if group is not None:
            for held in group.held.values():
                held.lengths.pop(lane, None)

    def restarted(self, shard: int, replica: int, boot: int) -> None:
        """What an earlier boot of the replica had synced may be lost: this one says what it has."""
        group = self._group(shard)
        held = None if group is None else group.held.get(replica)
        if group is not None and held is not None and held.boot < boot:
            group.hold(replica, None)

    def runs_cut(self, shard: int) -> int:
        """The newest cut whose runs f+1 replicas of the shard have synced, with all before it."""
        group = self._group(shard)
        return 0 if group is None else group.runs_cut()

    def shards(self) -> list[int]:
        """The shards that have reported."""
        return list(self._groups)

    def has_caught_up(self, shard: int, replica: int) -> bool:
        """Whether a replica has synced every lane of its shard as far as it is ordered, with the positions.

        Which cut was the last for the shard before this leader began is not known: then all of those count.
        """
        group = self._group(shard)
        held = None if group is None else group.held.get(replica)
        if held is None or held.runs_cut < self._newest_cut.get(shard, self._cut_before):
            return False
        lengths = held.lengths
        due = self._state.lengths_due(shard)
        return all(lengths.get(lane, 0) >= length for lane, length in due.items())

    def _is_known(self, lane: LaneId) -> bool:
        return lane in self._state.parts.by_lane or self._state.lanes.ordered_length(lane) is not None

    def _forget_settled(self, held: _Held, report: Report) -> None:
        """Of parts that were sealed or dropped while the report was on its way nobody asks any more."""
        parts = self._state.parts.by_lane
        for lane, _ in report.lengths:
            if lane.is_part and (lane not in parts or parts[lane].length is not None):
                held.lengths.pop(lane, None)

    def _group(self, number: int) -> _Group | None:
        """The reports of a shard as it is now; those of an earlier configuration are dropped."""
        shard, group = self._state.shards.by_number.get(number), self._groups.get(number)
        if shard is None:
            self._groups.pop(number, None)
            return None
        if group is None or group.epoch != shard.epoch:
            group = self._groups[number] = _Group(shard)
        elif group.shard is not shard:
            group.follow(shard)
        return group


def _may_start(group: _Group, report: Report) -> bool:
    """Whether a boot that was not heard of before is one: of a member, or of a learner with a new number."""
    member = group.shard.find(report.replica)
    if member is not None:
        return report.boot >= member.boot
    return report.replica > group.shard.replica_last and len(group.held) < 2 * SHARD_REPLICAS_MAX


def _largest(rank: int, values: list[int]) -> int:
    """The value at this rank from the top, 0 when there are fewer.

    >>> _largest(2, [5, 9, 7]), _largest(2, [5])
    (7, 0)
    """
    if len(values) <= rank:
        return min(values) if len(values) == rank else 0
    return sorted(values)[-rank]
