"""A state of `belfast` with a counter of entries, and short ways to say what goes into it."""

from uuid import UUID

from tests.ordering.building import address, placed

from ithaca.engines.belfast.speculation.entries import (
    BelfastEntry,
    CutRange,
    EndFree,
    OpenWindow,
    decode_entry,
    encode_entry,
)
from ithaca.engines.belfast.speculation.outcomes import VoidEntry
from ithaca.engines.belfast.speculation.state import BelfastState
from ithaca.engines.scalog.ordering.entries import Configure, OpenLane, RegisterShard
from ithaca.engines.scalog.ordering.outcomes import OrderedCut, Outcome, RefusedEntry
from ithaca.engines.scalog.ordering.prepared.entries import OpenPart, PartName, SealPart
from ithaca.engines.scalog.ordering.prepared.outcomes import PartOpened
from ithaca.model.positions import LaneId
from ithaca.model.view import ClusterConfiguration

CONFIGURATION = ClusterConfiguration(UUID(int=7), "scalog")
TTL_US = 10_000_000


class States:
    """Applies entries as a shell does, over their bytes. What is void or refused must change nothing."""

    def __init__(self, shards: int = 2) -> None:
        self.state = BelfastState()
        self.entries: list[BelfastEntry] = []
        self.records: list[tuple[int, LaneId, int]] = []
        self.follows: dict[int, int] = {}
        """Of each run, by its position, where the record before it ends."""
        self.apply(Configure(CONFIGURATION))
        for shard in range(shards):
            replicas = tuple((replica, address(10 * shard + replica)) for replica in range(3))
            self.apply(RegisterShard(shard, 1, True, replicas))
            self.apply(OpenLane(shard, 0, 1))
        self._parts = 0

    def apply(self, entry: BelfastEntry) -> list[Outcome]:
        entry = decode_entry(encode_entry(entry))
        self.entries.append(entry)
        before, index = self.state.snapshot(), self.state.index
        outcomes = self.state.apply(len(self.entries), entry)
        if outcomes and isinstance(outcomes[0], VoidEntry | RefusedEntry):
            assert len(outcomes) == 1
            self.state.index = index
            assert self.state.snapshot() == before, f"{outcomes[0]} changed the state"
            self.state.index = len(self.entries)
        assert len(self.state.snapshot()) <= self.state.size_bytes
        self.records += placed(outcomes)
        for outcome in outcomes:
            if isinstance(outcome, OrderedCut):
                self.follows |= {position: follows or position for _, _, position, _, follows in outcome.columns()}
        return outcomes

    @property
    def lanes(self) -> tuple[LaneId, ...]:
        """The open ones."""
        return tuple(lane for shard in self.state.view.shards for lane in shard.open_lanes())

    def reason(self, entry: BelfastEntry) -> str | None:
        """Why the entry changed nothing; None if it took effect."""
        outcome = self.apply(entry)[0]
        return outcome.reason if isinstance(outcome, VoidEntry | RefusedEntry) else None

    def fix(self, *, rounds: int = 2, q: int = 2) -> None:
        """End the free window, and open the first one with slots."""
        slots, state = self.state.slots, self.state
        self.apply(EndFree(slots.number, slots.attempt))
        lengths = tuple((lane, state.lanes.ordered_length(lane) or 0) for lane in self.lanes)
        window = OpenWindow(slots.number + 1, 0, rounds, 1, (q,), self.lanes, slots.attempt, lengths)
        assert self.reason(window) is None

    def cuts(self, stop: int, *used: tuple[int, dict[LaneId, int]], time_us: int = 0) -> CutRange:
        listed = tuple((cut, tuple(sorted(lanes.items()))) for cut, lanes in used)
        return CutRange(self.state.slots.attempt, self.state.slots.cut, stop, listed, time_us)

    def part(self, home: LaneId, length: int) -> PartName:
        """A part that is finished."""
        self._parts += 1
        token = self._parts.to_bytes(16, "big")
        opened = self.apply(OpenPart(home, token, TTL_US))[0]
        assert isinstance(opened, PartOpened)
        self.apply(SealPart(opened.part.lane, token, length, self.state.view.version))
        return opened.part.lane, token
