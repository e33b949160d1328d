"""The order's time: how fast it moves, and what the orderers' clocks agree on.

A cut carries the order's time, which starts by time, the expiry of parts, graces and retention go by. No single clock
may move it. While somebody leads, it moves with the leader's monotonic clock, by at most `CLOCK_SLEW_PERCENT` faster
or slower, towards the *agreed* clock: the latest time that a majority of the voters' clocks have reached. So it never
falls, never stands still, and passes about as fast as time does, however far from all clocks it is.

Every orderer that knows how the time moves tells the others, with each of its messages. A leader goes on from there,
by its own monotonic clock. If nobody knew, since too many have started again, the leader's first time may leap, ahead
only, to the agreed clock: there is nothing else to tell how long nobody led.
"""

from collections.abc import Iterable

from ithaca.model.limits import CLOCK_HEARD_S, CLOCK_LOOK_US, CLOCK_SLEW_PERCENT
from ithaca.model.quorum import majority


class OrderClock:
    """What one orderer knows of the time. `now_us` is its monotonic clock, `wall_us` are clocks that show the time."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._time_us = 0
        self._at_us = 0
        """When the order's time was that."""
        self._applied_us = 0
        self._walls: dict[int, tuple[int, int]] = {}
        """What the clocks of the others showed, and when that was heard."""
        self.is_known = False
        """Whether this server has led, or was told how the time moves: else it knows only what was ordered before."""
        self._has_all = False

    def begin(self) -> None:
        """This server leads. What was ordered before it did may not be applied yet."""
        self._has_all = False

    def caught_up(self) -> None:
        """All that was ordered before this server led is applied."""
        self._has_all = True

    def applied(self, time_us: int, now_us: int) -> None:
        """The order's time is at least this."""
        self._applied_us = max(self._applied_us, time_us)
        if time_us > self.read(now_us):
            self._set(time_us, now_us)

    def heard(self, server: int, wall_us: int, order_us: int, now_us: int, *, leads: bool) -> None:
        """Another orderer has said what its clock shows, and what the order's time is; 0 if it does not know that."""
        self._walls[server] = (wall_us, now_us)
        if order_us and (leads or not self.is_known):
            self._set(max(order_us, self._applied_us), now_us)
            self.is_known = True

    def read(self, now_us: int) -> int:
        """What the order's time may be by now, as far as this server knows."""
        return self._time_us + max(0, now_us - self._at_us)

    def recent(self, now_us: int) -> int | None:
        """What `lead` says without a look at any other clock, a moment after it has had one; None when it has to."""
        return self.read(now_us) if self.is_known and now_us - self._at_us < CLOCK_LOOK_US else None

    def lead(self, wall_us: int, voters: Iterable[int], now_us: int) -> int:
        """The order's time, as the leader says it."""
        recent_us = self.recent(now_us)
        if recent_us is not None:
            return recent_us
        time_us = self.read(now_us)
        agreed_us = self.agreed_us(wall_us, voters, now_us)
        if agreed_us is not None and self.is_known:
            most_us = max(0, now_us - self._at_us) * CLOCK_SLEW_PERCENT // 100
            time_us += min(max(agreed_us - time_us, -most_us), most_us)
            time_us = max(time_us, self._applied_us)
        elif agreed_us is not None and self._has_all:
            time_us = max(time_us, agreed_us)
            self.is_known = True
        self._set(time_us, now_us)
        return time_us

    def agreed_us(self, wall_us: int, voters: Iterable[int], now_us: int) -> int | None:
        """The latest time that a majority of the voters' clocks have reached; None when too few were heard of."""
        counted = tuple(voters)
        clocks = sorted(self.clocks_us(wall_us, counted, now_us).values(), reverse=True)
        most = majority(len(counted))
        return clocks[most - 1] if len(clocks) >= most else None

    def clocks_us(self, wall_us: int, voters: Iterable[int], now_us: int) -> dict[int, int]:
        """What the voters' clocks show now, of those that were heard of."""
        heard = self._walls | {self._server: (wall_us, now_us)}
        known = {voter: heard[voter] for voter in voters if voter in heard}
        return {
            voter: shown_us + now_us - at_us
            for voter, (shown_us, at_us) in known.items()
            if now_us - at_us <= CLOCK_HEARD_S * 1e6
        }

    def _set(self, time_us: int, now_us: int) -> None:
        self._time_us, self._at_us = time_us, now_us
