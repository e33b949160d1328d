"""The order's time on one orderer: `ordering.clock`, with this machine's clocks and the group that Raft agrees on."""

from typing import Any

from ithaca.engines.scalog.ordering.clock import OrderClock
from ithaca.protocol.members import Clocks
from ithaca.raft.messages import ServerId
from ithaca.runtime.machine import monotonic_ns, wall_us
from ithaca.runtime.raft.driver import RaftDriver


class OrderTime:
    """What this orderer knows of the time."""

    def __init__(self, server: ServerId) -> None:
        self._clock = OrderClock(server)
        self.driver: RaftDriver | None = None
        """Who leads, and who votes; set before anything is heard or led."""

    def begin(self) -> None:
        """This server leads. What was ordered before it did may not be applied yet."""
        self._clock.begin()

    def caught_up(self) -> None:
        """All that was ordered before this server led is applied."""
        self._clock.caught_up()

    def applied(self, time_us: int) -> None:
        """The state's time after an entry or a snapshot."""
        self._clock.applied(time_us, _now_us())

    def heard(self, server: ServerId, clocks: Clocks | None) -> None:
        """Another orderer has spoken. A leader goes by its own time alone."""
        if clocks is None or self.driver is None:
            return
        order_us = 0 if self.driver.is_leader else clocks.order_us
        leads = self.driver.leader == server
        self._clock.heard(server, clocks.wall_us, order_us, _now_us(), leads=leads)

    def readings(self) -> Clocks:
        """What the others are told."""
        clock = self._clock
        return Clocks(wall_us(), clock.read(_now_us()) if clock.is_known else 0)

    def read(self) -> int:
        """What the order's time may be by now, as far as this server knows."""
        return self._clock.read(_now_us())

    def lead(self) -> int:
        """The order's time, as the leader says it."""
        now_us = _now_us()
        time_us = self._clock.recent(now_us)  # it is asked for with every report
        return self._clock.lead(wall_us(), self._voters(), now_us) if time_us is None else time_us

    def agreed_us(self) -> int | None:
        """The latest time that a majority of the voters' clocks have reached, and the order's time has; None when too
        few were heard of."""
        agreed_us = self._clock.agreed_us(wall_us(), self._voters(), _now_us())
        return None if agreed_us is None else min(agreed_us, self.lead())

    def status(self) -> dict[str, Any] | None:
        """By how much the voters' clocks, and the order's time, are ahead of what a majority has reached.

        None where that is not known: the voters tell it the leader alone.
        """
        if self.driver is None or not self.driver.is_leader:
            return None
        now_us, shown_us, voters = _now_us(), wall_us(), self._voters()
        agreed_us = self._clock.agreed_us(shown_us, voters, now_us)
        if agreed_us is None:
            return None
        clocks = self._clock.clocks_us(shown_us, voters, now_us)
        return {
            "order_ahead_s": _seconds(self._clock.read(now_us) - agreed_us),
            "voters": [
                {"server": voter, "ahead_s": _seconds(clock_us - agreed_us)} for voter, clock_us in clocks.items()
            ],
        }

    def _voters(self) -> tuple[ServerId, ...]:
        assert self.driver is not None
        return self.driver.configuration.voters


def _now_us() -> int:
    return monotonic_ns() // 1000


def _seconds(time_us: int) -> float:
    return round(time_us / 1e6, 3)
