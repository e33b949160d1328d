"""A state with a counter of entries, and short ways to say what goes into it."""

from uuid import UUID

from ithaca.engines.scalog.ordering.entries import (
    Configure,
    Cut,
    OpenLane,
    OrderingEntry,
    RegisterShard,
    cut,
    decode_entry,
    encode_entry,
)
from ithaca.engines.scalog.ordering.outcomes import OrderedCut, Outcome, RefusedEntry
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.cut import LaneLengths
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, ClusterConfiguration

CONFIGURATION = ClusterConfiguration(UUID(int=7), "scalog")


def address(replica: int) -> Address:
    return Address("127.0.0.1", 7600 + replica)


def shard_entry(shard: int, *, f: int = 1, masking: bool = False) -> RegisterShard:
    size = 2 * f + 1 if masking else f + 1
    replicas = tuple((replica, address(100 * shard + replica)) for replica in range(size))
    return RegisterShard(shard, f, masking, replicas)


class Driver:
    """Applies entries as a shell does, over their bytes, and keeps what happened."""

    def __init__(self, configuration: ClusterConfiguration = CONFIGURATION) -> None:
        self.state = OrderingState()
        self.entries: list[OrderingEntry] = []
        self.outcomes: list[list[Outcome]] = []
        self.apply(Configure(configuration))

    def apply(self, entry: OrderingEntry) -> list[Outcome]:
        entry = decode_entry(encode_entry(entry))
        self.entries.append(entry)
        self.outcomes.append(self.state.apply(len(self.entries), entry))
        assert len(self.state.snapshot()) <= self.state.size_bytes
        return self.outcomes[-1]

    def shard(self, shard: int, *, f: int = 1, masking: bool = False) -> list[LaneId]:
        """Register a shard and open the first lane of each of its replicas."""
        entry = shard_entry(shard, f=f, masking=masking)
        self.apply(entry)
        for replica, _ in entry.replicas:
            self.apply(OpenLane(shard, replica, 1))
        return self.state.shards.by_number[shard].open_lanes()

    def cut_entry(self, lengths: dict[LaneId, int], *, time_us: int = 0, view: int | None = None) -> Cut:
        return cut(LaneLengths.of(lengths), time_us=time_us, view=self.state.view.version if view is None else view)

    def cut(self, lengths: dict[LaneId, int], *, time_us: int = 0, view: int | None = None) -> OrderedCut:
        ordered = self.apply(self.cut_entry(lengths, time_us=time_us, view=view))[0]
        assert isinstance(ordered, OrderedCut)
        return ordered

    def reason(self, entry: OrderingEntry) -> str | None:
        """Why the entry is refused; None when it takes effect. A refusal must leave everything as it was."""
        before = OrderingState.restored(self.state.snapshot())
        outcomes = self.apply(entry)
        if not isinstance(outcomes[0], RefusedEntry):
            return None
        before.index = self.state.index
        assert self.state == before, "a refused entry changed the state"
        assert len(outcomes) == 1
        return outcomes[0].reason


def placed(outcomes: list[Outcome]) -> list[tuple[int, LaneId, int]]:
    """Every record that the outcomes order, one by one: position, lane, LSN."""
    records: list[tuple[int, LaneId, int]] = []
    for outcome in outcomes:
        if isinstance(outcome, OrderedCut):
            for shard in outcome.shards:
                for run in outcome.of_shard(shard).runs:
                    records += [(run.position + n, run.lane, run.lsn + n) for n in range(run.count)]
    return records


def report(
    shard: int,
    replica: int,
    lengths: dict[LaneId, int],
    *,
    epoch: int = 1,
    boot: int = 1,
    runs_cut: int = 0,
) -> Report:
    return Report(shard, epoch, replica, boot, runs_cut, tuple(lengths.items()))
