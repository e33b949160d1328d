"""Clocks that are set while servers run, and seeds in which the log is trimmed by age, which clocks must not hasten.

The world remembers what every clock has shown, which no server does. Retention is drawn apart from the rest, so that
the seeds without it stay what they were.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.sim.faults.targets import FaultGroup, Targets
from ithaca.sim.host import Host

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.world import World

CLOCK = "clock"
LEAP_CLOCKS = "leap-clocks"
"""All orderers start at once with clocks that are ahead (`sim.faults.scripted`)."""
HOUR_US = 3_600_000_000
JUMPS_US = (HOUR_US, HOUR_US, 24 * HOUR_US, 25 * HOUR_US, 365 * 24 * HOUR_US)
"""By how much clocks jump at most: more than any age, grace or time to live."""
_CHANCE = 0.2


def with_retention(configuration: "Configuration") -> "Configuration":
    """The same, or with retention by age, and clocks that jump."""
    random = Random(f"retention of {configuration.seed}")
    if random.random() >= _CHANCE:
        return configuration
    faults = sorted({*configuration.faults, CLOCK, random.choice(("kill", "blackout", LEAP_CLOCKS, LEAP_CLOCKS))})
    limits = {
        "RETENTION_CHECK_S": 1,
        "RETENTION_WAIT_S": random.choice((3, 6)),
        "RETENTION_STEPS": random.choice((1, 3)),
    }
    return replace(
        configuration,
        faults=tuple(faults),
        retention_age_s=random.choice((4, 10, 60)),
        limits=configuration.limits | limits,
    )


class ClockJumps:
    """Sets clocks, and remembers what they were."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = Random(f"{world.configuration.seed} jumps")
        self._offsets: dict[str, list[tuple[int, int]]] = {}
        """Of each host whose clock was set: when, and by how much it was off until then."""

    def drawn_us(self, part: float) -> int:
        """A jump; `part` of the most that it may be."""
        return int(self._random.choice(JUMPS_US) * part)

    def set(self, host: Host, jump_us: int) -> None:
        now_ns = self._world.scheduler.now_ns
        self._offsets.setdefault(host.name, []).append((now_ns, host.clocks.offset_us))
        host.clocks.offset_us += jump_us

    def is_short(self) -> bool:
        """Whether the next jump is taken back soon."""
        return self._random.random() < 0.3

    def delay_s(self) -> float:
        return self._random.uniform(0.1, 2)

    def extreme_us(
        self, host: Host, since_ns: int, choose: Callable[[Iterable[int]], int], last_ns: int | None = None
    ) -> int:
        """The largest, or smallest, that the clock was off by since then, to `last_ns` or now; drift included."""
        now_ns = self._world.scheduler.now_ns
        shown: list[int] = []
        shown_from_ns = -1
        for until_ns, offset_us in [*self._offsets.get(host.name, ()), (now_ns, host.clocks.offset_us)]:
            if until_ns >= since_ns and (last_ns is None or shown_from_ns <= last_ns):
                shown.append(offset_us)
            shown_from_ns = until_ns
        return choose(shown) + int(now_ns * (host.clocks.rate - 1)) // 1000


class ClockFaults(FaultGroup):
    """Clocks that jump."""

    def __init__(self, world: "World", targets: Targets) -> None:
        super().__init__(world, targets)
        self.kinds = {CLOCK: self._clock}

    def _clock(self) -> str:
        """The time of day jumps, of one host or of many at once."""
        hosts = [self._random.choice([*self._world.hosts.values(), *self._world.clients])]
        if self._random.random() < 0.5:
            hosts = self._targets.focused()
        jumps = self._world.jumps
        jump_us = jumps.drawn_us(self._random.choice((-1, 1)) * self._random.random())
        self._set_clocks(hosts, jump_us)
        if jumps.is_short():
            self._targets.after(jumps.delay_s(), lambda: self._set_clocks(hosts, -jump_us))
        return f"by {jump_us / 1e6:g} s of {', '.join(host.name for host in hosts)}"

    def _set_clocks(self, hosts: list[Host], jump_us: int) -> None:
        for host in hosts:
            self._world.jumps.set(host, jump_us)
