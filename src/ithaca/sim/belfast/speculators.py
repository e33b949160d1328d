"""Clients that speculate: what they are told is judged by the rules of speculative deliveries (`proof.speculation`)."""

import asyncio
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.errors import IthacaError
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.speculation import Confirmed, Delivered, Failed, SpeculativeEvent
from ithaca.proof import payload
from ithaca.proof.history import Confirm, Fail, Spec
from ithaca.sim.clients.connecting import AGAIN_S, connected
from ithaca.sim.process import Process
from ithaca.sim.violation import Violation

if TYPE_CHECKING:
    from ithaca.sim.world import World


def speculators_of(seed: int) -> int:
    """How many a seed has: drawn apart from the rest."""
    return Random(f"speculators of {seed}").choice((0, 1, 1, 2))


class Speculating:
    """Speculates from the first position on, again and again."""

    def __init__(self, world: "World", number: int) -> None:
        self.name = f"speculator-{number}"
        self._world = world
        self._confirmed = 0

    @property
    def has_all(self) -> bool:
        """Whether all that was acknowledged is confirmed to it."""
        return self._confirmed >= self._world.recorder.last_position

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        self._confirmed = 0
        log = await connected(self._world, program=self.name, rights=("read",))
        while True:
            try:
                await self._speculate(random, log)
            except IthacaError as error:
                self._world.met(error, "subscribe")
                await asyncio.sleep(AGAIN_S)

    async def _speculate(self, random: Random, log: ClusterLog) -> None:
        recorder = self._world.recorder
        start, inv = await recorder.first(log.first()), recorder.now_ns()
        async with log.speculate(start) as speculation:
            told = _Told(self._world, recorder.subscribed(start, None, inv), start)
            while True:
                for event in await speculation.take(1):
                    told.take(event)
                self._confirmed = max(self._confirmed, told.confirmed)
                if random.random() < 0.02 and not self._world.is_healing:
                    return


class _Told:
    """What one speculation was told."""

    def __init__(self, world: "World", number: int, start: int) -> None:
        self._world = world
        self._number = number
        self.confirmed = start - 1
        self._attempt = 0
        self._next = start

    def take(self, event: SpeculativeEvent) -> None:
        recorder = self._world.recorder
        now, number = recorder.now_ns(), self._number
        match event:
            case Delivered(record, attempt):
                if record.position < self._next:
                    raise Violation("speculation", f"position {record.position} is delivered behind {self._next}")
                self._next, self._attempt = record.position + 1, attempt
                recorder.events.append(Spec(number, now, record.position, payload.decode(record.value), attempt))
                self._world.count("record delivered before its place was final")
            case Confirmed(up_to):
                if up_to >= self._world.ordered.tail:
                    said = f"{up_to} is confirmed, and all before {self._world.ordered.tail} is ordered"
                    raise Violation("confirmed-ordered", said)
                if up_to <= self.confirmed:
                    raise Violation("speculation", f"{up_to} is confirmed behind {self.confirmed}")
                recorder.events.append(Confirm(number, now, self.confirmed + 1, up_to, self._attempt))
                self.confirmed = up_to
                self._next = max(self._next, up_to + 1)
            case Failed(after):
                if after < self.confirmed:
                    raise Violation(
                        "speculation", f"{after} is the last that counts, and {self.confirmed} was confirmed"
                    )
                recorder.events.append(Fail(number, now, after + 1, self._attempt))
                self._next = after + 1
                self._attempt += 1  # or a later one, as what is delivered next says
                self._world.count("speculation failed")
