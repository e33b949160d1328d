"""The rules of time (docs/proof.md): the order's time, what expires by it, and what is trimmed by it.

The world knows the true time, which no server does: so it can tell whether what went was old, whether the order's time
moved as time does, and whether what had a time to live had it.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ithaca.engines.scalog.ordering.clock import OrderClock
from ithaca.engines.scalog.ordering.entries import OrderingEntry, TrimTo
from ithaca.engines.scalog.ordering.outcomes import OrderedCut, Outcome
from ithaca.engines.scalog.ordering.prepared.entries import ExpireParts, OpenPart, RenewParts
from ithaca.engines.scalog.ordering.prepared.outcomes import PartDropped, PartOpened, PartsPublished, PartsRenewed
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.limits import CLOCK_SLEW_PERCENT
from ithaca.model.positions import LaneId
from ithaca.proof.history import Trim
from ithaca.sim.process import EPOCH_US

if TYPE_CHECKING:
    from ithaca.sim.world import World

_DRIFT = 0.02
_TOLERANCE_US = 500_000
_FAST = 1 + CLOCK_SLEW_PERCENT / 100 + _DRIFT
_SLOW = 1 - CLOCK_SLEW_PERCENT / 100 - _DRIFT
"""How fast the order's time may pass."""
_HEARD_NS = 12_000_000_000
"""A clock that was heard of may have been set since, so long ago."""
_PROPOSED_NS = 1_000_000_000
"""A trim that is applied was proposed so long ago, and the leader may not have heard of a clock that was set since."""
_SHORT_TTL_US = 60_000_000


class TimeRules:
    """What must hold of the order's time, of expiry and of retention, by the true time."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._newest = 0
        """The last entry that anybody has applied."""
        self._bound_us: int | None = None
        """What the order's time was, at least, when it was last asked for, and when that was."""
        self._bound_ns = 0
        self._leader: OrderClock | None = None
        """Who has said so."""
        self._ordered: tuple[int, int] | None = None
        """The time of the last entry that anybody has applied, and when a leader said that."""
        self._said_ns: dict[int, int] = {}
        """When each time was said by a leader."""
        self._offsets: list[tuple[int, int]] = []
        """When a leader said the time, and by how much it was ahead of the true one."""
        self._leapt_ns = -1
        self._runs: list[tuple[int, int, int, int]] = []
        """Of each run: where it begins, when its cut was proposed, the time of that, and where the run ends. Between
        those of a cut there may be empty positions."""
        self._opened_ns: dict[LaneId, tuple[int, int]] = {}
        """Of each part: when the time was said that its own counts from, and its time to live."""
        self._voters: tuple[int, ...] = ()

    @property
    def short_parts(self) -> int:
        """Parts that must have expired, or been published, after a minute."""
        return sum(ttl_us < _SHORT_TTL_US for _, ttl_us in self._opened_ns.values())

    def leads(self, original: Callable[..., int], clock: OrderClock, wall_us: int, voters: Any, now_us: int) -> int:
        """The order's time passes as time does; it leaps where nobody knew it, and to what a majority agrees on."""
        was_known, applied_us = clock.is_known, clock._applied_us
        before_us, passed_us = clock._time_us, now_us - clock._at_us
        time_us = original(clock, wall_us, voters, now_us)
        now_ns = self._world.scheduler.now_ns
        self._voters = tuple(voters)
        self._agrees(clock.agreed_us(wall_us, voters, now_us), now_ns)
        if was_known and time_us < before_us + passed_us - passed_us * CLOCK_SLEW_PERCENT // 100:
            self._accuse("order-time", f"it passes by {time_us - before_us} us in {passed_us} us")
        if time_us < applied_us:
            self._accuse("order-time", f"a leader says {time_us}, and {applied_us} is ordered")
        bound_us = self._may_be(now_ns, clock)
        if bound_us is not None and time_us > bound_us:
            agreed_us = self._agreed_us(max, now_ns - _HEARD_NS)
            if was_known or time_us > agreed_us + _TOLERANCE_US:
                said = f"the order's time leaps by {time_us - bound_us} us more than time has passed"
                self._accuse("order-time", f"{said}; a majority of the clocks say {agreed_us}, not {time_us}")
            self._leapt_ns = now_ns
        slowest_us = (self._bound_us or 0) + int((now_ns - self._bound_ns) // 1000 * _SLOW)
        self._bound_us, self._bound_ns = max(time_us, slowest_us), now_ns
        self._leader = clock
        self._said_ns.setdefault(time_us, now_ns)
        if clock.is_known:  # else it has not applied yet what was ordered, and is about to
            ahead_us = time_us - EPOCH_US - now_ns // 1000
            # A leader may have said more than was ever ordered: what comes after it leaps all the same.
            if not was_known and self._offsets and ahead_us > self._offsets[-1][1] + _TOLERANCE_US:
                self._leapt_ns = now_ns
            self._offsets.append((now_ns, ahead_us))
        return time_us

    def says(self, original: Callable[..., int | None], clock: OrderClock, now_us: int) -> int | None:
        """A leader goes on from its last look at the clocks. An entry with this time may be applied much later, by a
        leader that had lost its majority when it said that."""
        time_us = original(clock, now_us)
        if time_us is not None:
            self._said_ns.setdefault(time_us, self._world.scheduler.now_ns)
        return time_us

    def _agrees(self, agreed_us: int | None, now_ns: int) -> None:
        """A majority of the voters' clocks have reached what they agree on."""
        most_us = self._agreed_us(max, now_ns - _HEARD_NS) + _TOLERANCE_US
        if agreed_us is not None and agreed_us > most_us:
            self._accuse("order-time", f"{agreed_us} is agreed on, and most clocks show at most {most_us}")

    def applied(self, state: OrderingState, index: int, entry: OrderingEntry, outcomes: list[Outcome]) -> None:
        """An orderer has applied an entry."""
        if index <= self._newest:
            return
        self._newest = index
        now_ns = self._world.scheduler.now_ns
        bound_us = self._may_be(now_ns)
        if bound_us is not None and state.time_us > bound_us:
            self._accuse("order-time", f"entry {index} makes it {state.time_us}, and it may be {bound_us} by now")
        self._ordered = state.time_us, self._said_ns.get(state.time_us, now_ns)
        for outcome in outcomes:
            match outcome:
                case OrderedCut() if len(outcome.keys):
                    said_ns = self._said_ns.get(outcome.time_us, now_ns)
                    for start, count in sorted(zip(outcome.positions.tolist(), outcome.counts.tolist(), strict=True)):
                        self._runs.append((start, said_ns, outcome.time_us, start + count))
                case PartOpened(part=part) if isinstance(entry, OpenPart):
                    said_ns = self._said_ns.get(entry.time_us, now_ns)
                    self._opened_ns.setdefault(part.lane, (said_ns, entry.ttl_us))
                case PartsRenewed() if isinstance(entry, RenewParts):
                    said_ns = self._said_ns.get(entry.time_us, now_ns)
                    for lane, _ in entry.parts:
                        if lane in self._opened_ns and lane not in outcome.gone:
                            self._renewed(lane, said_ns, entry.ttl_us)
                case PartDropped(lane=lane):
                    self._may_expire(entry, self._opened_ns.pop(lane, None), lane)
                case PartsPublished():
                    left = state.parts.by_lane
                    self._opened_ns = {lane: known for lane, known in self._opened_ns.items() if lane in left}
        if isinstance(entry, TrimTo):
            self._may_go(min(entry.position, state.first))

    def _renewed(self, lane: LaneId, said_ns: int, ttl_us: int) -> None:
        """The part lives until then, or for as long as it was to before."""
        opened_ns, before_us = self._opened_ns[lane]
        if said_ns + ttl_us * 1000 > opened_ns + before_us * 1000:
            self._opened_ns[lane] = said_ns, ttl_us

    def _accuse(self, rule: str, text: str) -> None:
        """The run ends with this step."""
        self._world.accuse(rule, text)

    def _may_be(self, now_ns: int, leader: OrderClock | None = None) -> int | None:
        """The most that the order's time may be now, and that this leader may say.

        A leader goes on from its own word. Another one may not have heard that, if it was never ordered: it goes on
        from what it has heard, and is as fast as time may be if it is so since what was ordered.
        """
        if self._bound_us is None:
            return None
        bounds = [(self._bound_us, self._bound_ns)]
        if leader not in (None, self._leader) and self._ordered is not None:
            bounds.append(self._ordered)
        return max(us + int((now_ns - at_ns) // 1000 * _FAST) for us, at_ns in bounds) + _TOLERANCE_US

    def _may_expire(self, entry: OrderingEntry, opened: tuple[int, int] | None, lane: LaneId) -> None:
        """A part has lived for as long as it was to, since its leader said so, unless the order's time has leapt since.

        It may be ordered later, and be all but over then.
        """
        if opened is None or not isinstance(entry, ExpireParts):
            return
        opened_ns, ttl_us = opened
        lived_us = (self._world.scheduler.now_ns - opened_ns) // 1000
        if lived_us < ttl_us / _FAST - _TOLERANCE_US and self._leapt_ns < opened_ns:
            self._accuse("expiry", f"part {lane} was to live for {ttl_us} us, and expired after {lived_us}")

    def _may_go(self, before: int) -> None:
        """What nobody asked to be trimmed is old by the true time, or was so by all clocks for as long as they wait."""
        recorder, configuration = self._world.recorder, self._world.configuration
        age_us = configuration.retention_age_s * 1_000_000
        if before <= recorder.trimmed or not age_us:
            return
        recorder.trimmed = before
        now_ns = self._world.scheduler.now_ns
        recorder.events.append(Trim(now_ns, None, before))  # nobody is told
        self._world.count("trimmed by retention")
        at = bisect_left(self._runs, before, key=lambda run: run[0]) - 1
        if at < 0 or self._runs[at][3] <= self._world.ordered.first:
            return  # no record goes: there is none, or they are gone already
        _, ordered_ns, time_us, _ = self._runs[at]
        true_us = (now_ns - ordered_ns) // 1000
        since_ns = now_ns - configuration.limits["RETENTION_WAIT_S"] * 1_000_000_000
        waited = bisect_left(self._offsets, since_ns, key=lambda said: said[0])
        ahead_us = min((offset_us for _, offset_us in self._offsets[max(0, waited - 1) :]), default=0)
        order_us = EPOCH_US + now_ns // 1000 + ahead_us - time_us
        agreed_us = self._agreed_us(min, since_ns, now_ns - _PROPOSED_NS) - time_us
        oldest_us = max(true_us, min(order_us, agreed_us))
        if oldest_us < age_us / _FAST - _TOLERANCE_US:
            said = f"retention of {age_us} us trims before {before}, where records are {true_us} us old"
            self._accuse("retention", f"{said}: {order_us} by the order's time, {agreed_us} by most clocks")

    def _agreed_us(self, choose: Callable[[Iterable[int]], int], since_ns: int, last_ns: int | None = None) -> int:
        """What a majority of the voters' clocks have shown, at most or at least since then, to `last_ns` or now."""
        hosts = [self._world.hosts[f"orderer-{voter}"] for voter in self._voters]
        offsets = sorted(
            (self._world.jumps.extreme_us(host, since_ns, choose, last_ns) for host in hosts), reverse=True
        )
        ahead_us = offsets[len(offsets) // 2] if offsets else 0
        return EPOCH_US + self._world.scheduler.now_ns // 1000 + ahead_us
