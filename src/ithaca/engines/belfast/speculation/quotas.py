"""How many slots each lane gets in the next window, and which lanes get none (SpecLog §4.2, §4.4, §4.6, §4.7)."""

from collections.abc import Iterable, Mapping

from ithaca.engines.belfast.limits import (
    QUOTA_SLOTS,
    QUOTA_SLOTS_MAX,
    STAGGER_GROUP_SHARDS,
    STAGGER_SHARDS_MIN,
    STRAGGLER_LATE_S,
    STRAGGLER_OUT_S,
    STRAGGLER_WINDOWS,
)
from ithaca.model.positions import LaneId

_LATE_US = int(STRAGGLER_LATE_S * 1e6)
_OUT_US = int(STRAGGLER_OUT_S * 1e6)


def groups_of(lanes: int) -> int:
    """How many groups so many lanes are staggered in."""
    return 1 if lanes < STAGGER_SHARDS_MIN else -(-lanes // STAGGER_GROUP_SHARDS)


def wide_quota(wanted: Iterable[int]) -> int:
    """The same for all: a power of two, doubled until the largest batch that waits fits.

    >>> wide_quota([]), wide_quota([5000, 3]), wide_quota([1 << 20])
    (4096, 8192, 1048576)
    """
    q = QUOTA_SLOTS
    while q < min(max(wanted, default=0), QUOTA_SLOTS_MAX):
        q *= 2
    return q


class RateQuotas:
    """The paper's quotas: what a lane takes in within the nominal time of a cut, so that all report about as often.

    `placed` are absolute lengths: what was placed since the last window, over the time since.
    """

    def __init__(self) -> None:
        self._lengths: dict[LaneId, int] = {}
        self._at_us: int | None = None

    def next(
        self, placed: Mapping[LaneId, int], wanted: Mapping[LaneId, int], now_us: int, interval_us: int
    ) -> dict[LaneId, int]:
        """The quota of each lane; a lane that was not there before gets one record, and a large batch what it needs."""
        passed_us = 0 if self._at_us is None else max(1, now_us - self._at_us)
        quotas: dict[LaneId, int] = {}
        for lane, length in placed.items():
            added = length - self._lengths.get(lane, length)
            rate = -(-added * interval_us // passed_us) if passed_us else 0
            quotas[lane] = min(max(1, rate, wanted.get(lane, 0)), QUOTA_SLOTS_MAX)
        self._lengths, self._at_us = dict(placed), now_us
        return quotas


class Stragglers:
    """Lanes that keep others waiting: no slots for some windows, or a while, then one window to show that they are
    better."""

    def __init__(self) -> None:
        self._late_since: dict[LaneId, int] = {}
        self._until: dict[LaneId, tuple[int, int]] = {}
        """The window, or the time, from which on a lane has slots again."""

    def look(self, late: Iterable[LaneId], now_us: int, newest_window: int) -> list[LaneId]:
        """These lanes hold up the next cut now. Returns those that are stragglers from here on."""
        self._late_since = {lane: self._late_since.get(lane, now_us) for lane in late}
        found = [lane for lane, since_us in self._late_since.items() if now_us - since_us >= _LATE_US]
        for lane in found:
            self._until[lane] = newest_window + 1 + STRAGGLER_WINDOWS, now_us + _OUT_US
        return found

    def is_out(self, lane: LaneId, window: int, now_us: int) -> bool:
        """Whether the lane has no slots in a window of this number."""
        number, at_us = self._until.get(lane, (0, 0))
        return window < number and now_us < at_us

    def next_look_us(self, now_us: int) -> int | None:
        """When a lane is late, or has slots again; None while all keep up."""
        late = [since_us + _LATE_US for since_us in self._late_since.values()]
        again = [at_us for _, at_us in self._until.values()]
        return min((at_us for at_us in (*late, *again) if at_us > now_us), default=None)

    def closed(self, lane: LaneId) -> None:
        self._late_since.pop(lane, None)
        self._until.pop(lane, None)
