"""Emulated shards: two replicas that report like real ones, and hold no records (Scalog §6.3.2). No I/O here.

The lanes of a shard grow by the clock. Both replicas sync the same lengths at the same time, as real ones do that
stream to each other: one *sample*, which each reports as its own. A sample is covered when a cut orders it.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Final

from ithaca.engines.emulation import EmulatedReport
from ithaca.model.cut import ShardCut
from ithaca.model.errors import Corrupt
from ithaca.model.limits import REPORTS_OUTSTANDING_MAX, RUNS_SYNC_CUTS, RUNS_SYNC_S
from ithaca.model.positions import LaneId

REPLICAS: Final = 2
"""Of each shard, and so its lanes."""
BOOT: Final = 1

Lengths = tuple[int, ...]
"""Of the shard's lanes, by replica."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How a lane grows: by so many records per second, from `start_s` to `stop_s`."""

    records_per_s: float
    start_s: float
    stop_s: float

    def by(self, now_s: float) -> int:
        """How many records the lane has got by then.

        >>> growth = Growth(10.0, start_s=100.0, stop_s=102.0)
        >>> [growth.by(now) for now in (99.0, 100.05, 101.0, 999.0)]
        [0, 0, 10, 20]
        """
        passed_s = min(now_s, self.stop_s) - self.start_s
        return int(passed_s * self.records_per_s) if passed_s > 0 else 0

    @property
    def total(self) -> int:
        return self.by(self.stop_s)

    def next_s(self, count: int) -> float | None:
        """When the lane has more than `count` of them; None if it never has."""
        return None if count >= self.total else self.start_s + (count + 1) / self.records_per_s


class EmulatedShard:
    """A shard's lanes, and the newest sample of them."""

    def __init__(self, shard: int, epoch: int = 1, incarnation: int = 1) -> None:
        self.shard = shard
        self.epoch = epoch
        self.lanes = tuple(LaneId(shard, replica, incarnation) for replica in range(REPLICAS))
        self.replicas = [EmulatedReplica(self, replica) for replica in range(REPLICAS)]
        self.lengths: Lengths = (0,) * REPLICAS
        """The newest sample."""
        self.sample = 0
        """Its number."""
        self._base: Lengths = self.lengths
        self._growth = Growth(0.0, 0.0, 0.0)

    def grow(self, growth: Growth) -> None:
        """From now on the lanes grow like this; what they were to grow to before is all sampled."""
        self._base = self.final
        self._growth = growth

    @property
    def final(self) -> Lengths:
        """What the lanes grow to."""
        return tuple(length + self._growth.total for length in self._base)

    def take_sample(self, now_s: float) -> bool:
        """Sync what is there; False if it is no more than before."""
        grown = self._growth.by(now_s)
        if self._base[0] + grown <= self.lengths[0]:
            return False
        self.lengths = tuple(length + grown for length in self._base)
        self.sample += 1
        return True

    def grows_s(self) -> float | None:
        """When there is something new to sample; None if there never is."""
        return self._growth.next_s(self.lengths[0] - self._base[0])


class EmulatedReplica:
    """One replica: what it has reported, and what it has heard of the order."""

    __slots__ = (
        "_heard_cut",
        "_runs_unsynced_from",
        "_runs_unsynced_since_s",
        "number",
        "ordered",
        "runs_cut",
        "sample",
        "shard",
        "waiting",
    )

    def __init__(self, shard: EmulatedShard, number: int) -> None:
        self.shard = shard
        self.number = number
        self.sample = 0
        """The newest that it has reported."""
        self.ordered = [0] * REPLICAS
        self.waiting: deque[tuple[Lengths, float]] = deque()
        """Reports that no cut has covered yet, with the time at which they were sent."""
        self.runs_cut = 0
        self._heard_cut = 0
        self._runs_unsynced_from: int | None = None
        self._runs_unsynced_since_s = 0.0

    @property
    def lane(self) -> LaneId:
        """Its own."""
        return self.shard.lanes[self.number]

    @property
    def is_done(self) -> bool:
        """Whether everything that its lanes grow to is ordered."""
        return tuple(self.ordered) == self.shard.final

    @property
    def may_report(self) -> bool:
        """Whether not too many reports wait for their cut already."""
        return len(self.waiting) < REPORTS_OUTSTANDING_MAX

    def report(self, now_s: float) -> EmulatedReport:
        """Report the newest sample."""
        shard = self.shard
        self._sync_runs(now_s)
        self.sample = shard.sample
        self.waiting.append((shard.lengths, now_s))
        lengths = tuple(zip(shard.lanes, shard.lengths, strict=True))
        return EmulatedReport(shard.shard, shard.epoch, self.number, BOOT, self.runs_cut, lengths)

    def hear(self, cut: ShardCut, now_s: float) -> list[float]:
        """A cut came: how long each report took that it covers. Raises `Corrupt` unless it continues every lane."""
        ordered = self.ordered
        for run in cut.runs:
            lane = run.lane.replica
            if run.lsn != ordered[lane]:
                raise Corrupt(f"cut {cut.number} goes on with lane {run.lane} at {run.lsn}, not at {ordered[lane]}")
            ordered[lane] = run.lsn + run.count
        if cut.runs and self._runs_unsynced_from is None:
            self._runs_unsynced_since_s = now_s
            self._runs_unsynced_from = self._heard_cut
        self._heard_cut = cut.number
        self._sync_runs(now_s)
        durations: list[float] = []
        if cut.runs:
            while self.waiting and all(map(int.__ge__, ordered, self.waiting[0][0])):
                durations.append(now_s - self.waiting.popleft()[1])
        return durations

    def _sync_runs(self, now_s: float) -> None:
        """As `replica.reporting.RunsSync`: so many cuts, or so long, after the first with runs. Reports that are
        repeated look at the time, too: no cut comes any more when too many wait for their runs to be synced.
        """
        if (
            self._runs_unsynced_from is None
            or self._heard_cut - self._runs_unsynced_from >= RUNS_SYNC_CUTS
            or now_s - self._runs_unsynced_since_s >= RUNS_SYNC_S
        ):
            self.runs_cut = self._heard_cut
            self._runs_unsynced_from = None


class Durations:
    """A histogram of durations, in steps of 1 %: bounded however many there are, and easily added up."""

    _STEP: Final = math.log(1.01)
    _LEAST_S: Final = 1e-6
    BUCKETS: Final = 2048

    def __init__(self, counts: list[int] | None = None) -> None:
        self.counts = counts or [0] * self.BUCKETS

    def add(self, seconds: float) -> None:
        place = int(math.log(seconds / self._LEAST_S) / self._STEP) if seconds > self._LEAST_S else 0
        self.counts[min(place, self.BUCKETS - 1)] += 1

    def join(self, other: "Durations") -> None:
        self.counts = [ours + theirs for ours, theirs in zip(self.counts, other.counts, strict=True)]

    @property
    def total(self) -> int:
        return sum(self.counts)

    def percentile_ms(self, percent: float) -> float:
        """The duration that so many percent do not exceed; there must be at least one.

        >>> durations = Durations()
        >>> for ms in range(1, 101): durations.add(ms / 1000)
        >>> round(durations.percentile_ms(50)), round(durations.percentile_ms(99))
        (50, 99)
        """
        wanted = math.ceil(self.total * percent / 100)
        assert wanted, "there are no durations"
        seen = 0
        for place, count in enumerate(self.counts):
            seen += count
            if seen >= wanted:
                return self._LEAST_S * math.exp((place + 0.5) * self._STEP) * 1e3
        raise AssertionError("the counts add up to their total")
