"""On the leader: each shard has one lane, at a replica that is here, as long as enough others are (SpecLog §4.8).

A lane whose primary is gone is taken over as soon as enough others are here, the restarted primary among them: what was
delivered of it keeps its place. A lane on which too few replicas are left would hold up every cut of the log, so it
fails after a while, and speculators are told so.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ithaca.engines.belfast.leading.taking import Takeovers
from ithaca.engines.belfast.limits import TAKEOVER_AFTER_S
from ithaca.engines.belfast.speculation.entries import FailLane, NoteDisk
from ithaca.engines.belfast.speculation.state import BelfastState
from ithaca.engines.scalog.ordering.entries import CloseLane, OpenLane
from ithaca.model.positions import LaneId
from ithaca.model.view import Replica, Shard

KeptEntry = NoteDisk | OpenLane | FailLane | CloseLane

_TAKEOVER_AFTER_US = int(TAKEOVER_AFTER_S * 1e6)


class Here(NamedTuple):
    """A replica that has joined, with the number of its start, and the disk that it has."""

    boot: int
    disk: int


class StartAgain(NamedTuple):
    """Have a replica start again: each of its shard has had its lane in this start, and only a new one gets another."""

    shard: int
    replica: int


class LaneSupervisor:
    """Who is here, and what follows from that for the lanes."""

    def __init__(self, state: BelfastState, takeovers: Takeovers, detection_us: int) -> None:
        self._state = state
        self._takeovers = takeovers
        self._detection_us = detection_us
        self._here: dict[int, dict[int, Here]] = {}
        self._silent: set[tuple[int, int]] = set()
        """Replicas whose connections are there, and which say nothing."""
        self._met: set[tuple[int, int, int]] = set()
        """Starts of replicas that were here in this term: of others it is not known that they are gone."""
        self._short_since: dict[LaneId, int] = {}
        """Lanes of whose shards too few replicas are here."""
        self._gone_since: dict[LaneId, int] = {}
        """Lanes whose primary is not here."""
        self._in_flight: set[KeptEntry] = set()
        self._later: dict[KeptEntry, int] = {}
        """What was refused is not tried again before this time."""
        self._has_news = True
        """Whether anything has changed since the last look that could make something due."""
        self._asked: set[tuple[int, int, int]] = set()
        """Who was asked to start again, in which start."""

    def came(self, shard: int, replica: int, here: Here) -> None:
        self._has_news = True
        self._here.setdefault(shard, {})[replica] = here
        self._met.add((shard, replica, here.boot))
        self._silent.discard((shard, replica))
        self._takeovers.came(shard, replica)

    def went(self, shard: int, replica: int) -> None:
        self._has_news = True
        self._here.get(shard, {}).pop(replica, None)
        self._silent.discard((shard, replica))
        self._takeovers.went(shard, replica)

    def are_silent(self, silent: Iterable[tuple[int, int]]) -> None:
        """These replicas are connected, and were not heard of for too long; all others were."""
        before, self._silent = self._silent, set(silent)
        self._has_news |= before != self._silent
        for shard, replica in sorted(self._silent - before):
            self._takeovers.went(shard, replica)
        for shard, replica in sorted(before - self._silent):
            self._takeovers.came(shard, replica)

    def here(self, shard: int) -> Mapping[int, Here]:
        return self._here.get(shard, {})

    def must_start_again(self, shard: int, replica: int, boot: int) -> bool:
        """Whether nobody of the shard can have a lane before this start of the replica has ended."""
        known = self._state.shards.by_number.get(shard)
        return known is not None and not known.open_lanes() and (shard, replica, boot) in self._asked

    def changed(self) -> None:
        """Something was ordered that is more than a cut: lanes, shards, disks or windows are not what they were."""
        self._has_news = True

    def settled(self, entry: KeptEntry, again_us: int | None = None) -> None:
        """What was proposed was applied; or it was in vain, and may be tried again at this time."""
        self._has_news = True
        self._in_flight.discard(entry)
        if again_us is not None:
            self._later[entry] = again_us

    def look(self, now_us: int) -> list[KeptEntry | StartAgain]:
        """What is due now. Looking costs as much as all else that reports lead to, and they say nothing of this."""
        if not self._is_worth_a_look(now_us):
            return []
        self._has_news = False
        self._later = {entry: at_us for entry, at_us in self._later.items() if at_us > now_us}
        due: list[KeptEntry | StartAgain] = []
        lanes: set[LaneId] = set()
        for shard in self._state.shards.by_number.values():
            if shard.phase == "finalized":
                continue
            due += self._note_disks(shard)
            open_lanes = shard.open_lanes()
            lanes.update(open_lanes)
            for lane in open_lanes:
                due += self._look_at(shard, lane, now_us)
            if not open_lanes and shard.phase == "live":
                due += self._open(shard)
        self._short_since = {lane: since_us for lane, since_us in self._short_since.items() if lane in lanes}
        self._gone_since = {lane: since_us for lane, since_us in self._gone_since.items() if lane in lanes}
        return due

    def _is_worth_a_look(self, now_us: int) -> bool:
        next_us = self.next_look_us()
        return self._has_news or bool(self._takeovers) or (next_us is not None and now_us >= next_us)

    def next_look_us(self) -> int | None:
        """When to look at the latest; None while nobody is missing."""
        pending = {entry.lane for entry in (*self._in_flight, *self._later) if isinstance(entry, FailLane | CloseLane)}
        short = [since_us + self._detection_us for lane, since_us in self._short_since.items() if lane not in pending]
        gone = [
            since_us + self._patience_us(lane)
            for lane, since_us in self._gone_since.items()
            if lane not in pending and lane not in self._takeovers and lane not in self._short_since
        ]
        return min([*short, *gone, *self._later.values()], default=None)

    # Disks

    def _note_disks(self, shard: Shard) -> list[KeptEntry]:
        entries = [NoteDisk(shard.shard, each.replica, here.disk) for each, here in self._members(shard)]
        named = self._state.disks.of(shard.shard)
        new = [each for each in entries if named.get(each.replica) != each.disk]
        is_held = bool(new) and self._state.slots.has_open_lane(shard.shard)
        return [kept for each in new if self._state.disks.may_note(each, is_held=is_held) for kept in self._once(each)]

    def _members(self, shard: Shard) -> list[tuple[Replica, Here]]:
        """The replicas of the shard that are here."""
        heard = [each for each in shard.replicas if (shard.shard, each.replica) not in self._silent]
        found = ((each, self.here(shard.shard).get(each.replica)) for each in heard)
        return [(each, here) for each, here in found if here is not None]

    def _counting(self, shard: Shard) -> list[tuple[Replica, Here]]:
        """Those whose disk is the one that the order names."""
        named = self._state.disks.of(shard.shard)
        return [(each, here) for each, here in self._members(shard) if named.get(each.replica) == here.disk]

    # Lanes

    def _look_at(self, shard: Shard, lane: LaneId, now_us: int) -> list[KeptEntry]:
        """Take the lane over, end it, or leave it."""
        counting = {each.replica: here for each, here in self._counting(shard)}
        is_short = len(counting) < shard.copies
        is_gone = self._boot(counting.get(lane.replica)) != self._boot_of(lane)
        if not is_short:
            self._short_since.pop(lane, None)
        if not is_gone:
            self._gone_since.pop(lane, None)
        was_taken, is_fixed = lane in self._takeovers, self._state.slots.mode == "fixed"
        if not (is_short or is_gone or was_taken) or (is_fixed and self._takeovers.is_ordering(lane)):
            return []
        is_late = is_short and now_us - self._short_since.setdefault(lane, now_us) >= self._detection_us
        if is_gone:
            has_waited = now_us - self._gone_since.setdefault(lane, now_us) >= self._patience_us(lane)
            is_due = has_waited and not is_short
        else:
            is_due = was_taken
        if not is_fixed:
            return self._once(CloseLane(lane)) if is_due or is_late else []
        if is_due:
            self._takeovers.begin(lane)
        return self._once(FailLane(lane)) if is_late else []

    def _patience_us(self, lane: LaneId) -> int:
        """How long a primary that is not here is waited for: not at all once it has started again, and longer if it was
        never here in this term, since a change of the leader is none of the primary."""
        boot = self._boot_of(lane)
        primary = self.here(lane.shard).get(lane.replica)
        if primary is not None and primary.boot > boot:
            return 0
        return _TAKEOVER_AFTER_US if (lane.shard, lane.replica, boot) in self._met else self._detection_us

    def _boot_of(self, lane: LaneId) -> int:
        """The start of its primary that has the lane."""
        shard = self._state.shards.by_number.get(lane.shard)
        member = None if shard is None else shard.find(lane.replica)
        return -1 if member is None else member.boot

    @staticmethod
    def _boot(here: Here | None) -> int | None:
        return None if here is None else here.boot

    def _open(self, shard: Shard) -> list[KeptEntry | StartAgain]:
        counting = self._counting(shard)
        if len(counting) < shard.copies:
            return []
        fresh = [(each, here) for each, here in counting if here.boot > each.boot]
        if fresh:
            each, here = fresh[0]
            return [*self._once(OpenLane(shard.shard, each.replica, here.boot))]
        spent = [(shard.shard, each.replica, here.boot) for each, here in counting[:1]]
        asked = [place for place in spent if place not in self._asked]
        self._asked.update(asked)
        return [StartAgain(number, replica) for number, replica, _ in asked]

    def _once(self, entry: KeptEntry) -> list[KeptEntry]:
        if entry in self._in_flight or entry in self._later:
            return []
        self._in_flight.add(entry)
        return [entry]
