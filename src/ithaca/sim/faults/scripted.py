"""Faults that take several steps, each at the moment at which it hurts most.

Drawn apart from the others, so that the seeds without them stay what they were.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from ithaca.sim.faults.clocks import LEAP_CLOCKS
from ithaca.sim.faults.targets import FaultGroup, Targets, both_ways
from ithaca.sim.host import Host

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.world import World

USURP = "usurp"
STEP_CLOCKS = "step-clocks"
BEREAVE = "bereave"
SCRIPTED_FAULTS = (USURP, STEP_CLOCKS, BEREAVE, LEAP_CLOCKS)
_CHANCE = 0.15
_LOOK_S = 0.05
_LOOKS_MAX = 100


def with_scripted_faults(configuration: "Configuration") -> "Configuration":
    """The same, or with one of these, or some."""
    random = Random(f"staged faults of {configuration.seed}")
    if not configuration.faults or random.random() >= _CHANCE:
        return configuration
    kinds: list[str] = []
    if configuration.orderers > 1:  # else there is nobody to follow the leader
        kinds += [USURP, STEP_CLOCKS]
    if configuration.replicas > 1 and configuration.failures.action != "replace":  # as `sim.faults.replacing` says
        kinds.append(BEREAVE)
    return configuration.with_some(random, kinds)


class ScriptedFaults(FaultGroup):
    """What befalls several servers, one after the other."""

    def __init__(self, world: "World", targets: Targets) -> None:
        super().__init__(world, targets)
        self._is_usurping = False
        self.kinds = {
            USURP: self._usurp,
            STEP_CLOCKS: self._step_clocks,
            LEAP_CLOCKS: self._leap_clocks,
            BEREAVE: self._bereave,
        }

    def _usurp(self) -> str | None:
        """The leader is cut off from the other orderers, and whoever follows it is killed when the cut is healed.

        So the third leader meets one who took entries alone, and has to go back behind what the second one added. If
        the connections break at once, the second one leads long before the first one knows that it is alone.
        """
        orderers = self._orderers()
        leader = next((host for host in orderers if self._targets.leads(host)), None)
        if leader is None or self._is_usurping:
            return None
        others = [host for host in orderers if host is not leader]
        heal = self._targets.cut(both_ways(leader, others))
        if self._random.random() < 0.5:
            self._world.network.reset({leader.address}, {host.address for host in others})
        self._is_usurping = True

        def end() -> None:
            self._is_usurping = False
            if self._world.is_healing:
                return
            heal()
            for host in others:
                if self._targets.leads(host):
                    self._world.kill(host, "it has followed a leader that is back")

        self._once(
            lambda: any(map(self._targets.leads, others)),
            lambda: self._targets.after(self._random.uniform(0.05, 1), end),
            end,
        )
        return leader.name

    def _step_clocks(self) -> str | None:
        """All orderers start at once with clocks that are ahead, which are set back before anybody leads."""
        return self._start_ahead(lambda orderers: all(map(self._is_ready, orderers)), None)

    def _leap_clocks(self) -> str | None:
        """All orderers start at once with clocks that are ahead, and are set back some time after one of them leads."""
        return self._start_ahead(lambda orderers: any(map(self._targets.leads, orderers)), self._random.uniform(0.5, 8))

    def _start_ahead(self, is_enough: Callable[[list[Host]], bool], lasts_s: float | None) -> str:
        """The clocks are ahead until it is enough, and then for so long."""
        orderers, jump_us = self._orderers(), self._world.jumps.drawn_us(1)
        for host in orderers:
            self._world.kill(host, "its clock is to be set")
            self._world.jumps.set(host, jump_us)

        def set_back() -> None:
            for host in orderers:
                self._world.jumps.set(host, -jump_us)

        def set_back_later() -> None:
            if lasts_s is None:
                set_back()
            else:
                self._targets.after(lasts_s, set_back)

        self._once(lambda: is_enough(orderers), set_back_later, set_back)
        return ", ".join(host.name for host in orderers)

    def _bereave(self) -> str | None:
        """A replica loses its disk, and does not reach its peers when it is back; then one of those is killed.

        So the lane of that one is closed while its sessions may ask somebody who has nothing of it yet.
        """
        world, host = self._world, self._targets.expendable()
        if host is None:
            return None
        shard = next(each.shard for each in world.view.shards if host in world.hosts_of(each.shard))
        peers = [each for each in world.hosts_of(shard) if each is not host]
        heal = self._targets.cut(both_ways(host, peers))
        world.kill(host, "its disk is lost")
        host.replace_disk()

        def kill_peer() -> None:
            if not world.is_healing:
                world.kill(self._random.choice(peers), "its peer has just lost everything")
            self._targets.after(self._random.uniform(0.5, 10), heal)

        self._once(lambda: host.is_up, lambda: self._targets.after(self._random.uniform(0.1, 1), kill_peer), heal)
        return host.name

    def _once(self, condition: Callable[[], bool], act: Callable[[], object], otherwise: Callable[[], object]) -> None:
        """Act as soon as the condition holds; if it does not for some seconds, do the other thing."""
        left = _LOOKS_MAX

        def look() -> None:
            nonlocal left
            left -= 1
            if condition():
                act()
            elif left:
                self._targets.after(_LOOK_S, look)
            else:
                otherwise()

        self._targets.after(_LOOK_S, look)

    def _orderers(self) -> list[Host]:
        return [host for host in self._targets.orderers() if not host.is_retired]

    def _is_ready(self, host: Host) -> bool:
        return self._world.simulation.raft_of(host) is not None
