"""The primary's part: batches into slots, passing cuts, and what speculators and the leader are told of it.

A batch takes consecutive slots of one cut. *Passing* closes a cut to placement and fixes its end: the length of the
lane behind the last batch in it, synced or not. A cut is passed when it is used up or the next batch does not fit into
the rest, when a group goes to the disk, when the leader asks, and, if it has records, by the clock while somebody
speculates. Nothing is written for a slot that stays empty, and nothing said of a cut that stays empty until it is asked
for: by the clock that was most of what lanes and the leader had to say, and nobody heard of a record earlier.
"""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from ithaca.engines.belfast.limits import (
    CUTS_TOGETHER_MAX,
    PASSED_OUTSTANDING_MAX,
    UNPLACED_BATCHES_MAX,
    UNPLACED_BYTES_MAX,
)
from ithaca.engines.belfast.speculation.packed import Mode
from ithaca.engines.belfast.speculation.placing_events import (
    Acked,
    AskedToPass,
    FreeEnds,
    FreeTold,
    GroupHanded,
    Members,
    Offered,
    OfferRefused,
    Ordered,
    Place,
    PlacingEffect,
    PlacingEvent,
    ReportDue,
    Speculators,
    Ticked,
    Watermark,
    WindowTold,
)
from ithaca.engines.belfast.speculation.reports import Ack, Acks, LaneReport
from ithaca.engines.belfast.speculation.windows import Share
from ithaca.model.positions import LaneId


class _UnsyncedBatch(NamedTuple):
    """A batch in its place, which is not durable yet."""

    stop: int
    """The lane's length behind it."""
    position: int


class Placement:
    """One incarnation of a lane at its primary. It ends with the lane."""

    def __init__(self, lane: LaneId, epoch: int, disks: Mapping[int, int], copies: int, mode: Mode = "fixed") -> None:
        self.lane = lane
        self.length = 0
        """Of the lane, with all that is placed."""
        self.durable = 0
        self.mode: Mode = mode
        self._epoch, self._disks, self._copies = epoch, disks, copies
        self._acks = Acks(lane)
        self._shares: deque[Share] = deque()
        """Windows that list the lane, from the current one on."""
        self._cut: int | None = None
        """Where batches are placed now; None without slots."""
        self._taken = 0
        """Slots of it that are used."""
        self._passed = 0
        self._asked = 0
        """The leader has asked to pass all cuts before this one."""
        self._used: deque[tuple[int, int]] = deque()
        """Passed cuts with records, and their ends, that are not applied."""
        self._unsynced: deque[_UnsyncedBatch] = deque()
        self._queue: deque[Offered] = deque()
        self._queue_bytes = 0
        self.wanted = 0
        """Records of the largest batch that waits."""
        self._is_group_due = False
        """Whether a group went to the disk that could not pass its cut."""
        self._end = 0
        """The end of the last window that lists the lane."""
        self._speculators = 0
        self._interval_us = 0
        self._now_us = 0
        self._cut_since_us: int | None = None
        self._effects: list[PlacingEffect] = []
        self._told = 0

    def step(self, event: PlacingEvent) -> list[PlacingEffect]:
        before = (self._passed, self.wanted, self.stopped)
        match event:
            case Offered():
                self._offered(event)
            case GroupHanded():
                self._handed()
            case Acked(lane=lane, ack=ack):
                self._acked(lane, ack)
            case Ordered(length=length):
                self._ordered(length)
            case WindowTold(share=share):
                self._window(share)
            case AskedToPass(cut=cut):
                self._asked = max(self._asked, cut)
            case FreeTold():
                self._pass_to(self._shares[-1].end_cut if self._shares else 0)
                self.mode = "free"
            case FreeEnds():
                self.mode = "ending"
            case Ticked(now_us=now_us, interval_us=interval_us):
                self._tick(now_us, interval_us)
            case Speculators(streams=streams):
                self._speculators = streams
            case Members(epoch=epoch, disks=disks, copies=copies):
                self._epoch, self._disks, self._copies = epoch, disks, copies
                self._count()
        self._settle()
        if before != (self._passed, self.wanted, self.stopped):
            self._effects.append(ReportDue())
        self._tell()
        effects, self._effects = self._effects, []
        return effects

    def report(self) -> LaneReport:
        """All that the leader must know, as it is now."""
        used = tuple(self._used)[:CUTS_TOGETHER_MAX]
        # What does not fit into one report is passed in the next.
        passed = self._passed if len(used) == len(self._used) else used[-1][0] + 1
        return LaneReport(
            self.lane, self._epoch, passed, used, self._acks.vector(), self.wanted, self.stopped, self._speculators
        )

    @property
    def stopped(self) -> int | None:
        return self.length if self.mode == "ending" else None

    @property
    def watermark(self) -> int:
        """Below it every slot of the lane is delivered or passed."""
        if self._unsynced:
            return self._unsynced[0].position
        if self._cut is None:
            return self._end
        return self._shares[0].start(self._cut) + self._taken

    # Batches

    def has_room_for(self, size: int) -> bool:
        """Whether a batch of so many bytes would be kept, if there are no slots for it now."""
        is_full = len(self._queue) >= UNPLACED_BATCHES_MAX or self._queue_bytes + size > UNPLACED_BYTES_MAX
        return not (self._queue and is_full)

    def _offered(self, batch: Offered) -> None:
        if not self.has_room_for(batch.size):
            self._effects.append(OfferRefused(batch.batch))
            return
        self._queue.append(batch)
        self._queue_bytes += batch.size
        self.wanted = max(self.wanted, batch.records)

    def _settle(self) -> None:
        """Do what has become possible: pass what is asked for, and place what waits."""
        self._pass_to(self._asked)
        while self._queue and (self.mode == "free" or self._find_slots(self._queue[0].records)):
            batch = self._queue.popleft()
            self._queue_bytes -= batch.size
            if batch.records == self.wanted:
                self.wanted = max((each.records for each in self._queue), default=0)
            self._place(batch)

    def _find_slots(self, count: int) -> bool:
        """Pass cuts until the batch fits into the current one; a window whose cuts are all too small is passed too,
        but only if a later one is known that is not."""
        if self.mode != "fixed":
            return False
        if not any(share.q >= count for share in self._shares):
            return False
        while self._cut is not None and self._shares[0].q - self._taken < count:
            self._pass_to(self._cut + 1)
        return self._cut is not None

    def _place(self, batch: Offered) -> None:
        if self.mode == "free":
            self.length += batch.records
            self._effects.append(Place(batch.batch, self.length - batch.records, 0))
            return
        assert self._cut is not None
        position = self._shares[0].start(self._cut) + self._taken
        self._effects.append(Place(batch.batch, self.length, position))
        self.length += batch.records
        self._taken += batch.records
        self._unsynced.append(_UnsyncedBatch(self.length, position))
        if self._taken == self._shares[0].q:
            self._pass_to(self._cut + 1)

    # Passing

    def _pass_to(self, cut: int) -> None:
        """Pass every own cut before this one, as far as windows are known."""
        while self._cut is not None and self._cut < cut:
            if self._taken:
                self._used.append((self._cut, self.length))
                self._taken, self._is_group_due = 0, False
            self._enter(max(cut, self._cut + 1))

    def _enter(self, cut: int) -> None:
        """The current cut is the first own one that is not before this."""
        while self._shares:
            self._cut = self._shares[0].own_cut(cut)
            if self._cut is not None:
                self._passed = max(self._passed, self._cut)
                self._cut_since_us = None
                return
            self._passed = max(self._passed, self._shares[0].end_cut)
            self._shares.popleft()
        self._cut = None

    def _window(self, share: Share) -> None:
        assert share.of_round.lane == self.lane, f"{share} is not of lane {self.lane}"
        if share.base < self._end:
            return  # told before
        self._shares.append(share)
        self._end, self.mode = share.end, "fixed"
        if self._cut is None:
            self._enter(share.first_cut)

    def _handed(self) -> None:
        if self._cut is not None and self._taken:
            if len(self._used) < PASSED_OUTSTANDING_MAX:
                self._pass_to(self._cut + 1)
            else:
                self._is_group_due = True

    def _ordered(self, length: int) -> None:
        """Every cut that ends here, or before, is applied. What is ordered is durable, whoever has said so."""
        self._durable_to(length)
        while self._used and self._used[0][1] <= length:
            self._used.popleft()
        if self._is_group_due:
            self._handed()

    def _tick(self, now_us: int, interval_us: int) -> None:
        """By the clock only while somebody speculates, and only what has records."""
        self._now_us = max(self._now_us, now_us)
        self._interval_us = interval_us
        if not self.is_clocked:
            self._cut_since_us = None
        elif self._cut_since_us is None:
            self._cut_since_us = self._now_us
        elif self._now_us - self._cut_since_us >= interval_us:
            assert self._cut is not None, "records are placed in a cut"
            self._pass_to(self._cut + 1)

    @property
    def is_clocked(self) -> bool:
        """Whether a tick is due within an interval: two cuts are outstanding, and a third has records, for which a
        speculator may wait at other lanes' behind it. Else idle means silent."""
        return bool(self._speculators and self._taken)

    # Durability

    def _acked(self, lane: LaneId, ack: Ack) -> None:
        if self._acks.take(lane, ack):
            self._count()

    def _count(self) -> None:
        self._durable_to(self._acks.durable(self._disks, self._copies))

    def _durable_to(self, length: int) -> None:
        self.durable = max(self.durable, length)
        while self._unsynced and self._unsynced[0].stop <= self.durable:
            self._unsynced.popleft()

    def _tell(self) -> None:
        if self.watermark > self._told:
            self._told = self.watermark
            self._effects.append(Watermark(self._told, self.durable))
