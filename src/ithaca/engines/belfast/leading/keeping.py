"""On the leader: each shard has one lane, at a replica that is here, as long as enough others are (SpecLog §4.8).

A lane on which too few replicas are left would hold up every cut of the log, so it ends after a while. A failure that
the shard could mask ends it too, with what was delivered of it and not ordered: speculators are told so.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ithaca.engines.belfast.speculation.entries import FailLane, NoteDisk
from ithaca.engines.belfast.speculation.state import BelfastState
from ithaca.engines.scalog.ordering.entries import CloseLane, OpenLane
from ithaca.model.positions import LaneId
from ithaca.model.view import Replica, Shard

KeptEntry = NoteDisk | OpenLane | FailLane | CloseLane


class Here(NamedTuple):
    """A replica that has joined, with the number of its start, and the disk that it has."""

    boot: int
    disk: int


class StartAgain(NamedTuple):
    """Have a replica start again: each of its shard has had its lane in this start, and only a new one gets another."""

    shard: int
    replica: int


class LaneKeeper:
    """Who is here, and what follows from that for the lanes."""

    def __init__(self, state: BelfastState, detection_us: int) -> None:
        self._state = state
        self._detection_us = detection_us
        self._here: dict[int, dict[int, Here]] = {}
        self._short_since: dict[LaneId, int] = {}
        """Lanes whose primary, or too many of its followers, are not here."""
        self._in_flight: set[KeptEntry] = set()
        self._later: dict[KeptEntry, int] = {}
        """What was refused is not tried again before this time."""
        self._asked: set[tuple[int, int, int]] = set()
        """Who was asked to start again, in which start."""

    def came(self, shard: int, replica: int, here: Here) -> None:
        self._here.setdefault(shard, {})[replica] = here

    def went(self, shard: int, replica: int) -> None:
        self._here.get(shard, {}).pop(replica, None)

    def here(self, shard: int) -> Mapping[int, Here]:
        return self._here.get(shard, {})

    def must_start_again(self, shard: int, replica: int, boot: int) -> bool:
        """Whether nobody of the shard can have a lane before this start of the replica has ended."""
        known = self._state.shards.by_number.get(shard)
        return known is not None and not known.open_lanes() and (shard, replica, boot) in self._asked

    def settled(self, entry: KeptEntry, again_us: int | None = None) -> None:
        """What was proposed was applied; or it was in vain, and may be tried again at this time."""
        self._in_flight.discard(entry)
        if again_us is not None:
            self._later[entry] = again_us

    def look(self, now_us: int) -> list[KeptEntry | StartAgain]:
        """What is due now."""
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
                due += self._end(shard, lane, now_us)
            if not open_lanes and shard.phase == "live":
                due += self._open(shard)
        self._short_since = {lane: since_us for lane, since_us in self._short_since.items() if lane in lanes}
        return due

    def next_look_us(self) -> int | None:
        """When to look at the latest; None while nobody is missing."""
        pending = {entry.lane for entry in (*self._in_flight, *self._later) if isinstance(entry, FailLane | CloseLane)}
        short = [since_us + self._detection_us for lane, since_us in self._short_since.items() if lane not in pending]
        return min([*short, *self._later.values()], default=None)

    # Disks

    def _note_disks(self, shard: Shard) -> list[KeptEntry]:
        is_held = self._state.slots.has_open_lane(shard.shard)
        entries = [NoteDisk(shard.shard, each.replica, here.disk) for each, here in self._members(shard)]
        named = self._state.disks.of(shard.shard)
        new = [each for each in entries if named.get(each.replica) != each.disk]
        return [kept for each in new if self._state.disks.may_note(each, is_held=is_held) for kept in self._once(each)]

    def _members(self, shard: Shard) -> list[tuple[Replica, Here]]:
        """The replicas of the shard that are here."""
        found = ((each, self.here(shard.shard).get(each.replica)) for each in shard.replicas)
        return [(each, here) for each, here in found if here is not None]

    def _counting(self, shard: Shard) -> list[tuple[Replica, Here]]:
        """Those whose disk is the one that the order names."""
        named = self._state.disks.of(shard.shard)
        return [(each, here) for each, here in self._members(shard) if named.get(each.replica) == here.disk]

    # Lanes

    def _end(self, shard: Shard, lane: LaneId, now_us: int) -> list[KeptEntry]:
        counting = {each.replica: (each, here) for each, here in self._counting(shard)}
        primary = self.here(shard.shard).get(lane.replica)
        is_here = lane.replica in counting and counting[lane.replica][0].boot == counting[lane.replica][1].boot
        if is_here and len(counting) >= shard.copies:
            self._short_since.pop(lane, None)
            return []
        member = shard.find(lane.replica)
        is_gone = primary is not None and member is not None and primary.boot > member.boot
        since_us = self._short_since.setdefault(lane, now_us)
        if not is_gone and now_us - since_us < self._detection_us:
            return []
        return self._once(FailLane(lane) if self._state.slots.mode == "fixed" else CloseLane(lane))

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
