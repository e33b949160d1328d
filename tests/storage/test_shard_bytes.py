"""Where a shard must be trimmed so that it takes no more than so many bytes."""

from ithaca.engines.scalog.storage.lane_store import LaneStore, trim
from ithaca.engines.scalog.storage.shard_bytes import position_beyond
from ithaca.model.cut import LaneRun
from ithaca.model.limits import SEGMENT_BYTES_MIN
from ithaca.model.positions import LaneId
from ithaca.sim.disk import SimDisk
from ithaca.wire.build import build

ONE, OTHER = LaneId(0, 0, 1), LaneId(0, 1, 1)
VALUE = bytes(SEGMENT_BYTES_MIN // 3)


class Shard:
    """Two lanes; every record fills a third of a segment, so that three batches are a segment and begin another."""

    def __init__(self) -> None:
        self.store = LaneStore(SimDisk(), "/lanes", segment_bytes=SEGMENT_BYTES_MIN)
        self.store.create(ONE)
        self.store.create(OTHER)
        self.tail = 1

    def write(self, lane: LaneId, count: int) -> None:
        """Records of the lane that are not ordered."""
        held = self.store.lanes[lane].lane
        for _ in range(count):
            held.commit(held.prepare([build([VALUE], timestamp_us=1)]))

    def order(self, lane: LaneId) -> None:
        """Order all that the lane has."""
        held = self.store.lanes[lane]
        count = held.lane.length - held.runs.end_lsn
        self.store.note((LaneRun(lane, held.runs.end_lsn, self.tail, count),), self.tail)
        self.tail += count

    def bytes(self, *lanes: LaneId) -> list[int]:
        """The sizes of the segments, the oldest first."""
        held = [self.store.lanes[lane].lane for lane in lanes]
        return [lane.bytes_of(first) for lane in held for first in lane.first_lsns]

    def beyond(self, bytes_max: int, *open_lanes: LaneId) -> int:
        return position_beyond(self.store, open_lanes, bytes_max)


def test_whole_segments_go_the_oldest_first() -> None:
    shard = Shard()
    for lane in (ONE, OTHER, ONE, OTHER):
        shard.write(lane, 2)
        shard.order(lane)
    assert shard.store.lanes[ONE].lane.first_lsns == shard.store.lanes[OTHER].lane.first_lsns == [0, 2]
    sizes = shard.bytes(ONE, OTHER)
    assert shard.beyond(sum(sizes)) == 1
    assert shard.beyond(sum(sizes) - 1) == 3, "the first segment of the one lane has positions 1 and 2"
    assert shard.beyond(sum(sizes) - sizes[0]) == 3
    assert shard.beyond(sum(sizes) - sizes[0] - 1) == 5
    assert shard.beyond(0) == 9


def test_what_is_being_written_stays_and_counts() -> None:
    shard = Shard()
    shard.write(ONE, 4)
    shard.order(ONE)
    sealed, written = shard.bytes(ONE)
    empty = sum(shard.bytes(OTHER))
    assert shard.beyond(0, ONE, OTHER) == 3
    assert shard.beyond(sealed + written + empty - 1, ONE, OTHER) == 3
    assert shard.beyond(sealed + written + empty, ONE, OTHER) == 1


def test_the_only_segment_of_a_lane_that_is_being_written_stays() -> None:
    shard = Shard()
    shard.write(ONE, 1)
    shard.order(ONE)
    assert shard.store.lanes[ONE].lane.first_lsns == [0]
    assert shard.beyond(0, ONE, OTHER) == 1
    assert shard.beyond(0, OTHER) == 2, "once the lane is closed, it may go"


def test_what_is_not_ordered_stays_and_counts() -> None:
    shard = Shard()
    shard.write(ONE, 2)
    shard.order(ONE)
    shard.write(OTHER, 4)
    assert shard.beyond(sum(shard.bytes(ONE, OTHER))) == 1
    assert shard.beyond(0) == 3


def test_what_was_trimmed_does_not_count() -> None:
    shard = Shard()
    shard.write(ONE, 6)
    shard.order(ONE)
    held = shard.store.lanes[ONE]
    sizes = shard.bytes(ONE)
    shard.store.first = 3
    empty = sum(shard.bytes(OTHER))
    assert shard.beyond(sum(sizes[1:]) + empty) == 3, "the first segment is there, and may go any time"
    assert shard.beyond(sum(sizes[1:]) + empty - 1) == 5
    trim(held, 2)
    assert held.lane.first_lsns[0] == 2
    assert shard.beyond(1 << 40) == 3
