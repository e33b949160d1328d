"""The replicated state machine of `belfast`: scalog's, with an order of slots and publications that wait in it.

While the order is free it does what scalog's does. While it is fixed cuts come as `CutRange` alone, a publication waits
at positions that are its own, and whatever would close a lane is refused: what was delivered of it must be ordered
first, by a takeover, or must fail.

Its snapshot is an array of a version, scalog's snapshot, the slots, the publications that wait, the disks that
count, and where the last record ends.
"""

from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.engines.belfast.limits import PUBLICATIONS_WAITING_MAX
from ithaca.engines.belfast.speculation.disks import DISK_BYTES, Disks, PackedDisk
from ithaca.engines.belfast.speculation.entries import BelfastEntry, CutRange, NoteDisk, OpenWindow, SlotEntry, TakeLane
from ithaca.engines.belfast.speculation.order import SlotOrder
from ithaca.engines.belfast.speculation.outcomes import (
    DiskNoted,
    LaneEnded,
    PublicationOrdered,
    PublicationReserved,
    SlotOutcome,
    SlotsOrdered,
    VoidEntry,
)
from ithaca.engines.belfast.speculation.packed import END_BYTES, SPAN_BYTES, WINDOW_BYTES, PackedSlots, layout_bytes
from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    CloseLane,
    Cut,
    Finalize,
    OpenLane,
    OrderingEntry,
    RemoveReplica,
)
from ithaca.engines.scalog.ordering.lanes import Runs
from ithaca.engines.scalog.ordering.outcomes import LaneClosed, OrderedCut, Outcome, Reason, RefusedEntry, TrimmedLog
from ithaca.engines.scalog.ordering.prepared.entries import Publish
from ithaca.engines.scalog.ordering.prepared.outcomes import PartsPublished, StagedPart
from ithaca.engines.scalog.ordering.room import PART_BYTES, WRITER_BYTES
from ithaca.engines.scalog.ordering.snapshot import array_head
from ithaca.engines.scalog.ordering.state import OrderingState, ShardSummary
from ithaca.model.cut import Vector, followed
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import Corrupt, FormatTooNew
from ithaca.model.limits import ORDERING_STATE_BYTES_MAX
from ithaca.model.parts import Published
from ithaca.model.positions import FIRST, LaneId

VERSION = 1
FOLLOWS_BYTES = 8
"""What a kept run takes in addition, since it says what it follows."""

_Position = Annotated[int, Meta(ge=FIRST, lt=1 << 62)]


class WaitingPublication(msgspec.Struct, frozen=True, array_like=True):
    """A publication that has its positions, and is ordered and answered when all before them is ordered."""

    published: Published
    parts: tuple[StagedPart, ...]
    """Those that have records, one behind the other."""
    asked: tuple[LaneId, ...]
    """All that were named."""


_encode = msgspec.msgpack.Encoder().encode
_envelope_decoder = msgspec.msgpack.Decoder(
    tuple[int, msgspec.Raw, msgspec.Raw, msgspec.Raw, list[PackedDisk], _Position]
)
_slots_decoder = msgspec.msgpack.Decoder(PackedSlots)
_waiting_decoder = msgspec.msgpack.Decoder(list[WaitingPublication])


class BelfastState(OrderingState):
    """Where the ordering layer of `belfast` stands after some entries."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = SlotOrder(self.lanes)
        self.waiting: deque[WaitingPublication] = deque()
        """As in `slots.reserved`, one for one."""
        self.disks = Disks()
        self.records_end = FIRST
        """Behind the last record, which the next one follows: slots between them are empty."""

    def apply(self, index: int, entry: BelfastEntry) -> list[Outcome]:
        """Take in the entry at this index, which is behind all those applied before."""
        if not isinstance(entry, SlotEntry | NoteDisk):
            return super().apply(index, entry)
        self._come_to(index)
        if self.configuration is None:
            return [VoidEntry(entry, "the log is not configured")]
        if isinstance(entry, NoteDisk):
            return [self._note_disk(entry)]
        if isinstance(entry, OpenWindow) and self._is_full_for(entry):
            return [VoidEntry(entry, "the state is full")]
        outcomes = self.slots.apply(entry)
        if isinstance(outcomes[0], VoidEntry):
            return list(outcomes)
        if isinstance(entry, CutRange | TakeLane):
            self._raised_time_us(entry.time_us)
        if isinstance(entry, CutRange):
            for number in entry.forget:
                self.kept.pop(number, None)
        told = self._said(outcomes, self.time_us)
        return self._followed([*told, *self._finalize_due()])

    def _apply(self, entry: OrderingEntry) -> list[Outcome]:
        reason = self._refusal(entry)
        if reason is not None:
            return [RefusedEntry(entry, reason)]
        if self.slots.mode != "fixed":
            outcomes = super()._apply(entry)
            self.slots.free_ordered(self.tail)
        elif isinstance(entry, Cut):
            return [VoidEntry(entry, "the order is not free")]
        else:
            outcomes = super()._apply(entry)
        if any(isinstance(outcome, TrimmedLog) for outcome in outcomes):
            self.slots.trim(self.first)
        return outcomes

    def _note_disk(self, entry: NoteDisk) -> DiskNoted | VoidEntry:
        shard = self.shards.by_number.get(entry.shard)
        if shard is None or shard.find(entry.replica) is None:
            return VoidEntry(entry, "no such replica")
        if not self.disks.may_note(entry, is_held=self.slots.has_open_lane(entry.shard)):
            return VoidEntry(entry, "the lane is to be taken over first")
        self.disks.note(entry)
        return DiskNoted(entry.shard, entry.replica, entry.disk)

    def _followed(self, outcomes: list[Outcome]) -> list[Outcome]:
        told = super()._followed(outcomes)
        self.disks.follow(told)
        return told

    # Refusals

    def _refusal(self, entry: OrderingEntry) -> Reason | None:
        """A shard has one lane at a time, and while the order is fixed nothing closes it but takeover and failure."""
        match entry:
            case OpenLane():
                return self._open_refusal(entry)
            case CloseLane(lane=lane):
                is_held = self.slots.mode == "fixed" and self.lanes.is_open(lane)
                return "the lane is to be taken over first" if is_held else None
            case RemoveReplica(shard=shard):
                return "the lane is to be taken over first" if self.slots.has_open_lane(shard) else None
            case AddReplica(shard=shard, replica=replica):
                known = self.shards.by_number.get(shard)
                is_again = known is not None and known.find(replica) is not None
                return (
                    "the lane is to be taken over first" if self.slots.has_open_lane(shard) and not is_again else None
                )
            case Finalize(shard=shard):
                if self.slots.has_open_lane(shard):
                    return "the lane is to be taken over first"
                return "a publication waits" if shard in self._shards_waiting() else None
        return None

    def _open_refusal(self, entry: OpenLane) -> Reason | None:
        shard = self.shards.by_number.get(entry.shard)
        replica = None if shard is None else shard.find(entry.replica)
        if shard is None or replica is None or entry.boot <= replica.boot:
            return None  # refused as in scalog, or answered again
        if any(lane.replica != entry.replica for lane in shard.open_lanes()):
            return "another lane of the shard is open"
        return "the lane is to be taken over first" if self.slots.has_open_lane(entry.shard) else None

    def _finalize_due(self) -> list[Outcome]:
        """A shard whose lane is not taken over yet, or of which something waits to be published, is final later."""
        held = {shard for shard in self.shards.graces if self.slots.has_open_lane(shard)}
        return self.shards.finalize_due(self.cut_number, self.time_us, later=held | self._shards_waiting())

    def _shards_waiting(self) -> set[int]:
        return {part.lane.shard for waiting in self.waiting for part in waiting.parts}

    def _is_empty(self, lane: LaneId) -> bool:
        """A lane without a record is there as long as slots of its own can be asked for."""
        closed = self.lanes.closed.get(lane)
        return closed is not None and not closed.length and closed.end <= self.first

    # What slots say

    def _said(self, outcomes: list[SlotOutcome], time_us: int) -> list[Outcome]:
        """What became of slots, and what it means for the rest."""
        told: list[Outcome] = []
        for outcome in outcomes:
            told.append(outcome)
            match outcome:
                case SlotsOrdered(tail=tail, runs=runs):
                    told.append(self._ordered(runs, tail, time_us))
                case PublicationOrdered(base=base, count=count):
                    waiting = self.waiting.popleft()
                    runs = self.parts.close(waiting.parts, base)
                    told += [self._ordered(runs, base + count, time_us), PartsPublished(waiting.published)]
                case LaneEnded(lane=lane, length=length):
                    told += [LaneClosed(lane, length), self.shards.closed(lane)]
        assert self.tail == self.slots.tail, f"the tail is {self.tail}, and slots end at {self.slots.tail}"
        return told

    def _ordered(self, runs: Runs, tail: int, time_us: int, follows: Vector | None = None) -> OrderedCut:
        assert follows is None, "what runs follow is known here"
        if len(runs.keys):
            follows = followed(runs.positions, runs.counts, self.records_end)
            self.records_end = int((runs.positions + runs.counts).max())
        return super()._ordered(runs, tail, time_us, follows)

    # Publications

    def _publish(self, entry: Publish) -> list[Outcome]:
        waiting = self._find_waiting(entry)
        if waiting is not None:
            return [PublicationReserved(waiting.published.position, waiting.published.count)]
        if self.slots.mode != "fixed":
            return super()._publish(entry)
        answer = self.parts.answer(entry)
        if answer is not None:
            return [answer]
        if len(self.waiting) >= PUBLICATIONS_WAITING_MAX:
            return [RefusedEntry(msgspec.structs.replace(entry, parts=()), "too many publications")]
        refused = self._consumed(entry)
        if refused is not None:
            return [refused]
        time_us = self._raised_time_us(entry.time_us)
        parts, published, dropped = self.parts.take(entry, self.slots.end, time_us)
        self.waiting.append(WaitingPublication(published, parts, _lanes(entry)))
        told = self._said(self.slots.reserve(published.count), time_us)
        is_ordered = not self.waiting
        return [*dropped, *told, *(self._finalize_due() if is_ordered else [])]

    def _find_waiting(self, entry: Publish) -> WaitingPublication | None:
        """The same publication, if it waits: it is answered when it is ordered, and not before.

        One without a writer is known by its parts; without parts, too, each is another, which commits something else.
        """
        for waiting in self.waiting:
            known = waiting.published
            is_same = (known.writer, known.key, known.owner) == (entry.writer, entry.key, entry.owner)
            if is_same and (entry.writer or (entry.parts and waiting.asked == _lanes(entry))):
                return waiting
        return None

    # What is told and kept

    def summary(self, shard: int) -> ShardSummary | None:
        """Parts that wait to be published are not ordered: replicas keep them as they keep other sealed ones."""
        known = super().summary(shard)
        if known is None or not self.waiting:
            return known
        parts = [part for waiting in self.waiting for part in waiting.parts if part.lane.shard == shard]
        return msgspec.structs.replace(known, parts=sorted([*known.parts, *parts], key=_lane_of))

    def lengths_due(self, shard: int) -> dict[LaneId, int]:
        parts = (part for waiting in self.waiting for part in waiting.parts if part.lane.shard == shard)
        return super().lengths_due(shard) | {part.lane: part.length for part in parts if part.length is not None}

    @property
    def size_bytes(self) -> int:
        waiting = sum(WRITER_BYTES + PART_BYTES * len(each.asked) for each in self.waiting)
        follows = sum(FOLLOWS_BYTES * len(cut.keys) for cut in self.kept.values())
        return super().size_bytes + self.slots.size_bytes + waiting + follows + DISK_BYTES * len(self.disks)

    def _is_full_for(self, entry: OpenWindow) -> bool:
        """Whether the window would be kept apart from the last, and there is no room for it. A free one always has:
        an order that is full goes on without slots."""
        if entry.is_free or not self.slots.kept.is_another(entry.layout, self.slots.end):
            return False
        return self.size_bytes + _window_bytes(entry) > ORDERING_STATE_BYTES_MAX

    def has_room_for(self, entry: OpenWindow, windows: int) -> bool:
        """Whether so many windows like this one could be kept, each apart from the last."""
        return self.size_bytes + windows * _window_bytes(entry) <= ORDERING_STATE_BYTES_MAX

    def snapshot_pieces(self) -> Iterator[bytes]:
        head = array_head(6) + _encode(VERSION)
        # Made now, since the state goes on to change while they are written.
        parts = (self.slots.packed(), list(self.waiting), self.disks.packed(), self.records_end)
        tail = [_encode(part) for part in parts]
        return chain([head], super().snapshot_pieces(), tail)

    @classmethod
    def restored(cls, data: bytes) -> "BelfastState":
        """The state of a snapshot; `FormatTooNew` or `Corrupt` when it cannot be read."""
        try:
            version, ordering, slots, waiting, disks, records_end = _envelope_decoder.decode(data)
            if version != VERSION:
                raise FormatTooNew(
                    f"the snapshot of the order of slots has version {version}, and this server reads up to {VERSION}: "
                    "update it",
                    found=version,
                    supported=VERSION,
                )
            packed, publications = _slots_decoder.decode(slots), _waiting_decoder.decode(waiting)
        except UNDECODABLE as error:
            raise Corrupt(f"the snapshot of the order of slots cannot be decoded: {error}") from error
        state = super().restored(bytes(ordering))
        assert isinstance(state, BelfastState)
        state.slots = SlotOrder.restored(packed, state.lanes)
        state.waiting = deque(publications)
        state.disks, state.records_end = Disks(disks), records_end
        if [each.published.position for each in publications] != [base for base, _ in packed.reserved]:
            raise Corrupt("the snapshot of the order of slots has positions for other publications than wait")
        return state


def _lanes(entry: Publish) -> tuple[LaneId, ...]:
    return tuple(lane for lane, _ in entry.parts)


def _lane_of(part: StagedPart) -> LaneId:
    return part.lane


def _window_bytes(entry: OpenWindow) -> int:
    return WINDOW_BYTES + SPAN_BYTES + 2 * layout_bytes(entry.layout) + END_BYTES * len(entry.lanes)
