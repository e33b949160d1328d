"""When a shard is added and when one is finalized: pure, from samples of the load in the order of their times.

*Hot*: the mean over the live shards of bytes a second, records a second, pending bytes or ordering lag has reached what
a shard shall take at most. *Cold*: with one shard fewer, every one of these would stay below a share of that. A load is
acted on when it has been so for a while, and after an action nothing follows until the cool-down is over.

Invariants:

1. There are never fewer than `shards_min` nor more than `shards_max` live shards because of a decision.
2. A load that does not change is never answered by adding and then finalizing, or the other way round: what is hot with
   n shards is not cold with n+1, and what is cold with n is not hot with n-1.
3. Nothing is decided from a sample in which a live shard is missing.
"""

from dataclasses import dataclass
from math import isfinite

from ithaca.model.errors import InvalidInput
from ithaca.model.limits import MIB


@dataclass(frozen=True, slots=True)
class ShardLoad:
    """What one live shard has to do now."""

    shard: int
    bytes_per_s: float
    records_per_s: float
    pending_bytes: float
    """Accepted and not ordered yet, by all its replicas."""
    lag_records: float
    """Synced and not ordered yet."""


@dataclass(frozen=True, slots=True)
class Sample:
    """All live shards at one time of a clock that never goes back; `unknown` are those that could not be measured."""

    time_s: float
    loads: tuple[ShardLoad, ...]
    unknown: tuple[int, ...] = ()

    @property
    def live(self) -> int:
        return len(self.loads) + len(self.unknown)


@dataclass(frozen=True, slots=True)
class AutoscaleSettings:
    """What a shard shall take at most, and how patient to be."""

    shards_min: int = 1
    shards_max: int = 8
    bytes_per_s: float = 32 * MIB
    records_per_s: float = 100_000
    pending_bytes: float = 16 * MIB
    lag_records: float = 50_000
    finalize_below: float = 0.5
    """A share of the above: colder than that, one shard fewer is enough."""
    hot_s: float = 10.0
    cold_s: float = 120.0
    """For so long it must have been hot, or cold."""
    cooldown_s: float = 60.0

    def __post_init__(self) -> None:
        if not 1 <= self.shards_min <= self.shards_max:
            raise InvalidInput(
                f"at least {self.shards_min} and at most {self.shards_max} shards cannot be: use 1 <= min <= max"
            )
        for name in ("bytes_per_s", "records_per_s", "pending_bytes", "lag_records"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidInput(f"{name} is {getattr(self, name)}: use a number above 0")
        for name in ("hot_s", "cold_s", "cooldown_s"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InvalidInput(f"{name} is {getattr(self, name)}: use 0 or more seconds")
        if not 0 < self.finalize_below < 1:
            raise InvalidInput(f"finalize_below is {self.finalize_below}: use a share between 0 and 1")


@dataclass(frozen=True, slots=True)
class Add:
    """Another shard is needed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Finalize:
    """This shard is not needed any more."""

    shard: int
    reason: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """Everything stays as it is."""

    reason: str


Decision = Add | Finalize | Nothing

_UNITS = {
    "bytes_per_s": "bytes/s",
    "records_per_s": "records/s",
    "pending_bytes": "pending bytes",
    "lag_records": "records of ordering lag",
}
"""What is measured of a shard, by the name that it has in loads and in settings."""


@dataclass(frozen=True, slots=True)
class _Mean:
    """One measure as each of so many shards would have it, beside its limit."""

    value: float
    limit: float
    unit: str

    @property
    def share(self) -> float:
        return self.value / self.limit

    def __str__(self) -> str:
        return f"{self.value:,.0f} {self.unit} per shard"


class AutoscalePolicy:
    """Remembers since when it is hot or cold, and when it last acted."""

    def __init__(self, settings: AutoscaleSettings) -> None:
        self._settings = settings
        self._now_s = float("-inf")
        self._hot_since_s: float | None = None
        self._cold_since_s: float | None = None
        self._acted_s = float("-inf")

    def decide(self, sample: Sample) -> Decision:
        """What is to be done now. Whoever is told to act, or pretends to, is left alone until the cool-down is over.

        >>> policy = AutoscalePolicy(AutoscaleSettings(shards_max=2, bytes_per_s=100, hot_s=10))
        >>> busy = (ShardLoad(0, 120, 1, 0, 0),)
        >>> policy.decide(Sample(0, busy)).reason
        'hot for 0 s of 10: 120 bytes/s per shard, the limit is 100'
        >>> policy.decide(Sample(10, busy))
        Add(reason='hot for 10 s: 120 bytes/s per shard, the limit is 100')
        >>> policy.decide(Sample(11, busy)).reason
        'cooling down for another 59 s'
        """
        assert sample.time_s >= self._now_s, (sample.time_s, self._now_s)
        self._now_s = sample.time_s
        decision = self._bounded(sample)
        if not isinstance(decision, Nothing):
            self._acted_s = sample.time_s
            self._forget()
        return decision

    def _bounded(self, sample: Sample) -> Decision:
        settings = self._settings
        left_s = self._acted_s + settings.cooldown_s - sample.time_s
        if sample.unknown or not sample.loads or left_s > 0:
            self._forget()
            if left_s > 0:
                return Nothing(f"cooling down for another {left_s:.0f} s")
            names = ", ".join(map(str, sample.unknown))
            return Nothing(f"shards that cannot be measured: {names}" if names else "no live shard is known")
        if sample.live < settings.shards_min:
            return Add(f"{sample.live} shards are live, the least is {settings.shards_min}")
        if sample.live > settings.shards_max:
            return Finalize(_idlest(sample), f"{sample.live} shards are live, the most is {settings.shards_max}")
        return self._by_load(sample)

    def _by_load(self, sample: Sample) -> Decision:
        hottest = max(self._means(sample, sample.live), key=lambda mean: mean.share)
        if hottest.share >= 1:
            self._cold_since_s = None
            self._hot_since_s = sample.time_s if self._hot_since_s is None else self._hot_since_s
            return self._when_hot(sample, hottest, sample.time_s - self._hot_since_s)
        self._hot_since_s = None
        if sample.live > 1:
            warmest = max(self._means(sample, sample.live - 1), key=lambda mean: mean.share)
            if warmest.share < self._settings.finalize_below:
                self._cold_since_s = sample.time_s if self._cold_since_s is None else self._cold_since_s
                return self._when_cold(sample, warmest, sample.time_s - self._cold_since_s)
        self._cold_since_s = None
        return Nothing(f"neither hot nor cold: {hottest}")

    def _when_hot(self, sample: Sample, mean: _Mean, lasted_s: float) -> Decision:
        settings = self._settings
        why = f"{mean}, the limit is {mean.limit:,.0f}"
        if sample.live >= settings.shards_max:
            return Nothing(f"hot, but {settings.shards_max} shards is the most: {why}")
        if lasted_s < settings.hot_s:
            return Nothing(f"hot for {lasted_s:.0f} s of {settings.hot_s:.0f}: {why}")
        return Add(f"hot for {lasted_s:.0f} s: {why}")

    def _when_cold(self, sample: Sample, mean: _Mean, lasted_s: float) -> Decision:
        settings = self._settings
        why = f"{mean} with one fewer, the limit is {mean.limit:,.0f}"
        if sample.live <= settings.shards_min:
            return Nothing(f"cold, but {settings.shards_min} shards is the least: {why}")
        if lasted_s < settings.cold_s:
            return Nothing(f"cold for {lasted_s:.0f} s of {settings.cold_s:.0f}: {why}")
        return Finalize(_idlest(sample), f"cold for {lasted_s:.0f} s: {why}")

    def _means(self, sample: Sample, shards: int) -> list[_Mean]:
        return [
            _Mean(sum(getattr(load, name) for load in sample.loads) / shards, getattr(self._settings, name), unit)
            for name, unit in _UNITS.items()
        ]

    def _forget(self) -> None:
        self._hot_since_s = self._cold_since_s = None


def _idlest(sample: Sample) -> int:
    """The shard that takes the least; of several the newest, which holds the least as a rule."""
    return min(sample.loads, key=lambda load: (load.bytes_per_s, load.records_per_s, -load.shard)).shard
