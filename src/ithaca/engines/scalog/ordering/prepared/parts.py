"""Prepared parts and publications: what waits to be published, and where it is then (design §5).

A part is a lane of its own that ordinary cuts pass over: it is not among the lanes that may grow. Sealed, its length
is agreed on, and what f+1 replicas hold of it; published, it is a closed lane like any other.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from ithaca.engines.scalog.ordering.lanes import LaneTable, Runs
from ithaca.engines.scalog.ordering.outcomes import (
    FinalizedShard,
    LaneClosed,
    Outcome,
    Reason,
    RefusedEntry,
    ViewChanged,
)
from ithaca.engines.scalog.ordering.prepared.entries import (
    AbortParts,
    OpenPart,
    PartName,
    Publish,
    RenewParts,
    SealPart,
)
from ithaca.engines.scalog.ordering.prepared.outcomes import (
    PartDropped,
    PartOpened,
    PartSealed,
    PartsPublished,
    PartsRenewed,
    PartsUnfit,
    StagedPart,
)
from ithaca.engines.scalog.ordering.prepared.writers import WriterTable
from ithaca.engines.scalog.ordering.shards import ShardTable
from ithaca.model.cut import lane_key
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import (
    INCARNATION_MAX,
    PART_INCARNATION_MIN,
    PARTS_MAX,
    PARTS_PUBLISHED_MAX,
    PARTS_UNFINISHED_MAX,
)
from ithaca.model.parts import Published
from ithaca.model.positions import LaneId


class PackedParts(msgspec.Struct, frozen=True, array_like=True):
    """The table in a snapshot."""

    parts: list[StagedPart] = []
    last: list[tuple[int, int, int]] = []
    """The newest part of each replica: shard, replica, incarnation."""
    published: list[Published] = []
    published_us: list[Annotated[int, Meta(ge=0, lt=1 << 62)]] = []
    """The order's time of each of them, as far as it is known."""

    def __post_init__(self) -> None:
        lanes = [part.lane for part in self.parts]
        places = [(shard, replica) for shard, replica, _ in self.last]
        tokens, writers = {part.token for part in self.parts}, {each.writer for each in self.published}
        if lanes != sorted(set(lanes)) or places != sorted(set(places)) or not all(lane.is_part for lane in lanes):
            raise InvalidInput("the parts are not in order, each once")
        if len(tokens) < len(lanes) or len(writers) < len(self.published):
            raise InvalidInput("two parts have one token, or a writer stands twice")
        if len(self.published_us) > len(self.published):
            raise InvalidInput("there are more times of publications than publications")


class PartTable:
    """Parts by lane. Numbers of parts are never reused."""

    def __init__(self, lanes: LaneTable, shards: ShardTable) -> None:
        self._lanes = lanes
        self._shards = shards
        self.by_lane: dict[LaneId, StagedPart] = {}
        self._of_token: dict[bytes, LaneId] = {}
        self._unfinished: Counter[int] = Counter()
        self._last: dict[tuple[int, int], int] = {}
        self.writers = WriterTable()

    @property
    def unfinished_most(self) -> int:
        """Parts that are being written in the shard that has most of them."""
        return max(self._unfinished.values(), default=0)

    @property
    def numbers_most(self) -> int:
        """Parts that have ever been opened at the replica that has had most of them."""
        return max(self._last.values(), default=PART_INCARNATION_MIN - 1) - (PART_INCARNATION_MIN - 1)

    def open(self, entry: OpenPart, time_us: int) -> list[Outcome]:
        known = self._of_token.get(entry.token)
        if known is not None:
            return [PartOpened(self.by_lane[known])]
        home = entry.home
        last = self._last.get((home.shard, home.replica), PART_INCARNATION_MIN - 1)
        reason = self._unfit(home)
        if reason is None and (len(self.by_lane) >= PARTS_MAX or last >= INCARNATION_MAX):
            reason = "too many parts"
        if reason is None and self._unfinished[home.shard] >= PARTS_UNFINISHED_MAX:
            reason = "too many parts"
        if reason is None and self._lanes.parts[home.shard] >= PARTS_PUBLISHED_MAX:
            reason = "too many published parts"
        if reason is not None:
            return [RefusedEntry(entry, reason)]
        self._last[home.shard, home.replica] = last + 1
        part = StagedPart(home._replace(incarnation=last + 1), entry.token, home, time_us + entry.ttl_us)
        self._put(part)
        return [PartOpened(part)]

    def seal(self, entry: SealPart) -> list[Outcome]:
        part = self.find((entry.lane, entry.token))
        if part is None:
            return [RefusedEntry(entry, "no such part")]
        if part.length is not None:
            is_same = part.length == entry.length
            return [
                PartSealed(part.lane, part.length) if is_same else RefusedEntry(entry, "the part has another length")
            ]
        shard = self._shards.by_number[part.lane.shard]
        # As with cuts: what was durable in an earlier configuration may not be in this one.
        if not shard.is_ordering or shard.epoch_view > entry.view:
            return [RefusedEntry(entry, "the configuration has changed")]
        self._unfinished[shard.shard] -= 1
        self.by_lane[part.lane] = msgspec.structs.replace(part, length=entry.length)
        return [PartSealed(part.lane, entry.length)]

    def renew(self, entry: RenewParts, time_us: int) -> list[Outcome]:
        """Let parts expire later; never sooner."""
        gone: list[LaneId] = []
        for lane, token in entry.parts:
            part = self.find((lane, token))
            if part is None:
                gone.append(lane)
            else:
                until_us = max(part.until_us, time_us + entry.ttl_us)
                self.by_lane[lane] = msgspec.structs.replace(part, until_us=until_us)
        return [PartsRenewed(tuple(gone))]

    def answer(self, entry: Publish) -> Outcome | None:
        """Why nothing is published, or what was before; None when the parts are to be published."""
        known = self.writers.answer(entry) if entry.writer else self._published_before(entry)
        if known is not None:
            return known
        found = [(lane, self.find((lane, token))) for lane, token in entry.parts]
        gone = tuple(lane for lane, part in found if part is None)
        unfinished = tuple(lane for lane, part in found if part is not None and part.length is None)
        if gone or unfinished:
            return PartsUnfit(gone, unfinished)
        return self.writers.refusal(entry) if entry.writer else None

    def _published_before(self, entry: Publish) -> PartsPublished | None:
        """Where all of these parts are, one behind the other, if their lanes are known to be published so."""
        closed = [self._lanes.closed.get(lane) for lane, _ in entry.parts]
        known = [lane for lane in closed if lane is not None]
        if not known or len(known) < len(closed):
            return None
        first = position = known[0].end - known[0].length
        for lane in known:
            if lane.end - lane.length != position:
                return None
            position = lane.end
        return PartsPublished(Published("", entry.key, entry.owner, first, position - first))

    def publish(self, entry: Publish, tail: int, time_us: int) -> tuple[Runs, list[Outcome]]:
        """Close the lanes of the parts at the positions from `tail` on, in the order of the entry."""
        parts, published, outcomes = self.take(entry, tail, time_us)
        return self.close(parts, tail), [*outcomes, PartsPublished(published)]

    def take(
        self, entry: Publish, position: int, time_us: int
    ) -> tuple[tuple[StagedPart, ...], Published, list[Outcome]]:
        """Let the parts have the positions from this one on: those that have records, and what the writer published."""
        parts = [self._take(lane) for lane, _ in entry.parts]
        count = sum(_sealed_length(part) for part in parts)
        published = Published(entry.writer, entry.key, entry.owner, position, count)
        if entry.writer:
            self.writers.note(published, time_us)
        dropped: list[Outcome] = [PartDropped(part.lane) for part in parts if not part.length]
        return tuple(part for part in parts if part.length), published, dropped

    def close(self, parts: Iterable[StagedPart], position: int) -> Runs:
        """Order the parts from this position on, one behind the other: closed lanes from here on."""
        rows: list[tuple[int, int, int]] = []
        for part in parts:
            length = _sealed_length(part)
            rows.append((lane_key(part.lane), length, position))
            position += length
            self._lanes.close_at(part.lane, length, position)
        keys, counts, positions = np.array(sorted(rows), np.int64).reshape(-1, 3).T
        return Runs(keys, np.zeros_like(keys), counts, positions)

    def abort(self, entry: AbortParts) -> list[Outcome]:
        return self._drop(name[0] for name in entry.parts if self.find(name) is not None)

    def expire(self, lanes: Iterable[LaneId], time_us: int) -> list[Outcome]:
        """Drop those of the parts whose time is up."""
        return self._drop(lane for lane in lanes if lane in self.by_lane and self.by_lane[lane].until_us <= time_us)

    def follow(self, outcomes: list[Outcome]) -> list[Outcome]:
        """What these outcomes mean for parts: who wrote an unfinished one has ended, or its shard is final."""
        gone: list[LaneId] = []
        for outcome in outcomes:
            match outcome:
                case LaneClosed(lane=home):
                    gone += [part.lane for part in self.by_lane.values() if part.home == home and part.length is None]
                case FinalizedShard(shard=shard):
                    gone += [lane for lane in self.by_lane if lane.shard == shard]
                case ViewChanged(shard=shard, now=None):
                    self._last = {place: last for place, last in self._last.items() if place[0] != shard}
        return self._drop(dict.fromkeys(gone))

    def find(self, name: PartName) -> StagedPart | None:
        """The part, if it is neither published nor gone."""
        lane, token = name
        part = self.by_lane.get(lane)
        return part if part is not None and part.token == token else None

    def is_known(self, token: bytes) -> bool:
        """Whether a part of this token is neither published nor gone."""
        return token in self._of_token

    @property
    def numbered_count(self) -> int:
        """Replicas that have had a part."""
        return len(self._last)

    def in_shard(self, shard: int) -> list[StagedPart]:
        return [part for lane, part in sorted(self.by_lane.items()) if lane.shard == shard]

    def sealed_lengths(self, shard: int) -> dict[LaneId, int]:
        """What every replica of the shard must hold beside what is ordered."""
        return {part.lane: part.length for part in self.in_shard(shard) if part.length is not None}

    def due(self, time_us: int) -> tuple[LaneId, ...]:
        """The parts whose time is up."""
        return tuple(sorted(lane for lane, part in self.by_lane.items() if part.until_us <= time_us))

    @property
    def next_until_us(self) -> int | None:
        """When the next part expires."""
        return min((part.until_us for part in self.by_lane.values()), default=None)

    def packed(self) -> PackedParts:
        return PackedParts(
            [part for _, part in sorted(self.by_lane.items())],
            [(*place, last) for place, last in sorted(self._last.items())],
            *self.writers.packed(),
        )

    @classmethod
    def restored(cls, packed: PackedParts, lanes: LaneTable, shards: ShardTable) -> "PartTable":
        table = cls(lanes, shards)
        for part in packed.parts:
            table._put(part)
        table._last = {(shard, replica): last for shard, replica, last in packed.last}
        table.writers = WriterTable.restored(packed.published, packed.published_us)
        return table

    def _put(self, part: StagedPart) -> None:
        self.by_lane[part.lane] = part
        self._of_token[part.token] = part.lane
        self._unfinished[part.lane.shard] += part.length is None

    def _take(self, lane: LaneId) -> StagedPart:
        part = self.by_lane.pop(lane)
        del self._of_token[part.token]
        self._unfinished[lane.shard] -= part.length is None
        return part

    def _drop(self, lanes: Iterable[LaneId]) -> list[Outcome]:
        return [PartDropped(self._take(lane).lane) for lane in list(dict.fromkeys(lanes))]

    def _unfit(self, home: LaneId) -> Reason | None:
        if not self._lanes.is_open(home):
            return "the lane is closed"
        return None if self._shards.is_live(home.shard) else "the shard is finalizing"


def _sealed_length(part: StagedPart) -> int:
    assert part.length is not None, f"part {part.lane} is not finished"
    return part.length
