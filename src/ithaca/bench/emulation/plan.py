"""What emulators are told, and what they count."""

from collections.abc import Mapping
from dataclasses import dataclass

from ithaca.bench.emulation.shards import Growth
from ithaca.engines import registry
from ithaca.engines.emulation import Emulation
from ithaca.model.engine import EngineName
from ithaca.model.view import Address


@dataclass(frozen=True, slots=True)
class Turn:
    """Lanes grow from `start_s`; what happens from `count_s` to `stop_s` is counted; then the rest is ordered."""

    lane_records_per_s: float
    report_interval_s: float
    repeat_interval_s: float
    start_s: float
    count_s: float
    stop_s: float

    @property
    def growth(self) -> Growth:
        return Growth(self.lane_records_per_s, self.start_s, self.stop_s)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the order was when, as one emulator heard."""

    at_s: float
    cut: int
    tail: int
    sent_bytes: int
    received_bytes: int


@dataclass(frozen=True, slots=True)
class Counted:
    """What one emulator counted in a turn: durations from a report to its cut, and the order at both ends."""

    durations: list[int]
    reports: int
    first: Mark
    last: Mark
    records: int
    """In all its lanes, since the beginning."""


@dataclass(frozen=True, slots=True)
class Upwards:
    """Whom replicas report to: the aggregator of their shard, or where there is none the leader."""

    leader: Address
    aggregators: Mapping[int, Address]
    engine: EngineName

    @property
    def emulation(self) -> Emulation:
        return registry.engine(self.engine).emulation()

    def of(self, shard: int) -> Address:
        number = self.emulation.aggregator_of(shard, self.aggregators)
        return self.leader if number is None else self.aggregators[number]
