"""A client of a simulated cluster that prepares parts and publishes them: killed in between, told nothing, repeating.

What it was about to publish outlives its processes, as a program's own records do: the same records under the same
key, in parts that it has still or prepares again, until it is told where they are.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.errors import IthacaError, PartGone, PublishConflict
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.parts import Part, Published
from ithaca.proof import payload
from ithaca.sim.clients.connecting import AGAIN_S, connected
from ithaca.sim.clients.producers import KEYS
from ithaca.sim.process import Process

if TYPE_CHECKING:
    from ithaca.sim.world import World

_DAWDLE_S = 0.1
_TTLS_S = (1.0, 4.0)
_LONG_S = 3600.0
_SHORT_OF_ROOM_S = 20.0
"""Where there is room for few parts, those of a client that was killed must not have it for long."""
_MEDDLES = 0.25
_ONCE = 0.3
_SLOW = 0.2


@dataclass
class _Publication:
    """Some records that are to be published together."""

    key: int
    owner: str
    rows: list[tuple[int, int, int]]
    """Session, first number and count of each part."""
    is_once: bool = False
    """Whether it has no writer: then only the parts themselves tell whether it is done."""
    parts: list[Part] = field(default_factory=list)
    tries: int = 0


class Publisher:
    """Publishes one set after the other, each under the next key of one writer."""

    def __init__(self, world: "World", number: int) -> None:
        self.name = f"publisher-{number}"
        self._world = world
        self._current: _Publication | None = None
        self._key = 0
        self._last: Published | None = None
        self.succeeded = 0
        self._meddling = Random(f"meddling of {world.configuration.seed} {self.name}")
        self._meddles = self._meddling.random() < _MEDDLES

    @property
    def is_settled(self) -> bool:
        return self._current is None

    @property
    def _is_troubled(self) -> bool:
        """Whether it makes it hard for itself; later it only has to get on."""
        return self._world.is_loaded and not self._world.is_healing

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        log = await connected(self._world)
        log.set_shard_policy(random.choice(("sticky", "round_robin")))
        while self._world.is_loaded or self._current is not None:
            if self._current is None:
                self._current = self._new(random)
            try:
                await self._step(who, random, log, self._current)
            except IthacaError as error:
                self._world.met(error, "publish")
                await asyncio.sleep(AGAIN_S)
            await asyncio.sleep(random.uniform(0, 4 * self._world.configuration.pause_between_appends_s))

    def _new(self, random: Random) -> _Publication:
        self._key += random.randint(1, 3)
        most, recorder = self._world.configuration.records_max, self._world.recorder
        rows = [(recorder.new_session(), 1, random.randint(1, most)) for _ in range(random.randint(1, 3))]
        is_once = Random(f"{self._world.configuration.seed} {self.name} {self._key}").random() < _ONCE
        return _Publication(self._key, random.choice(("", "me")), rows, is_once)

    async def _step(self, who: Process, random: Random, log: ClusterLog, current: _Publication) -> None:
        if not current.parts or (random.random() < 0.2 and not (current.is_once and current.tries)):
            current.parts = []
            prepared = {at: await self._prepared(random, log, *current.rows[at]) for at in _shuffled(random, current)}
            current.parts = [part for _, part in sorted(prepared.items())]
            if self._is_troubled and random.random() < 0.25:
                await self._dawdle(random.uniform(0, 4))  # for some to expire, and for servers to start again
        is_aborted = self._is_troubled and random.random() < 0.15
        if is_aborted:
            await log.abort(current.parts)
        try:
            published = await self._publish(who, log, current)
        except PartGone:
            current.parts = []  # whether an earlier try was heard is told by the next one
            if current.is_once and current.tries > 1:
                self._current = None  # but not without a writer: what is prepared again is published again
            if is_aborted and current.tries == 1 and random.random() < 0.5:
                self._current = None  # it is given up for good, and must be nowhere
                self._world.count("publication given up")
            raise
        assert not (is_aborted and current.tries == 1), f"{self.name} published parts that it had aborted"
        self._current, self._last = None, published
        self.succeeded += 1
        if random.random() < 0.3:
            await self._again(random, log, current, published)
        if self._meddles and self._is_troubled:
            await self._world.simulation.meddle(self._meddling, log, self.name)

    async def _dawdle(self, seconds: float) -> None:
        """Do nothing for so long; not while everything waits for this publisher to get on."""
        for _ in range(int(seconds / _DAWDLE_S)):
            if self._is_troubled:
                await asyncio.sleep(_DAWDLE_S)

    async def _prepared(self, random: Random, log: ClusterLog, session: int, seq: int, count: int) -> Part:
        sizes = Random(f"{session}/{seq}")
        most = self._world.configuration.record_bytes_max
        values = [payload.encode(session, seq + row, sizes.randint(payload.HEAD_BYTES, most)) for row in range(count)]
        keys = [random.choice(KEYS)] * count if random.random() < 0.5 else None
        longest_s = _LONG_S if "PARTS_MAX" not in self._world.configuration.limits else _SHORT_OF_ROOM_S
        ttl_s = random.choice((*_TTLS_S, longest_s)) if self._is_troubled else longest_s
        if random.random() < 0.3:
            return await log.prepare(values, keys=keys, ttl=ttl_s)
        async with await log.open_part(ttl=ttl_s) as writer:
            step, slow = random.randint(1, count), Random(f"{session} is slow")
            for first in range(0, count, step):
                some = slice(first, first + step)
                await writer.append_many(values[some], keys=None if keys is None else keys[some])
                if slow.random() < _SLOW:
                    await self._dawdle(slow.uniform(0, 2))  # for longer than some parts would live by themselves
            return await writer.finish()

    async def _publish(self, who: Process, log: ClusterLog, current: _Publication) -> Published:
        current.tries += 1
        shards = [part.shard for part in current.parts] if current.tries == 1 else None
        return await self._world.recorder.publish(
            who,
            f"{self.name}/{current.key}",
            tuple(current.rows),
            shards,
            lambda: self._asked(log, current, current.parts),
        )

    async def _asked(self, log: ClusterLog, current: _Publication, parts: list[Part]) -> Published:
        if current.is_once:
            return await log.publish_once(parts)
        return await log.publish(current.key, parts, writer=self.name, owner=current.owner)

    async def _again(self, random: Random, log: ClusterLog, current: _Publication, published: Published) -> None:
        """Publish what was published: it is where it was, and an older key or another owner is told so."""
        parts = current.parts if random.random() < 0.5 or current.is_once else []
        try:
            again = await self._asked(log, current, parts)
        except PartGone:
            is_trimmed = self._world.recorder.trimmed > published.position
            assert is_trimmed, f"{self.name} was told {published}, and then that its parts are gone"
            return
        assert again == published, f"{self.name} was told {published}, and then {again}"
        await log.abort(current.parts)
        if current.is_once:
            self._world.count("published once more without a writer")
            return
        older = random.random() < 0.5
        key, owner = (current.key - 1, current.owner) if older else (current.key, "another")
        told: object = None
        try:
            told = await log.publish(key, [], writer=self.name, owner=owner)
        except PublishConflict as error:
            told = error.key, error.position
        self._world.count("publication in conflict")
        expected = published.key, published.position
        assert told == expected, f"{self.name} was told {told} of key {key} by {owner!r}, behind {published}"


def _shuffled(random: Random, current: _Publication) -> list[int]:
    """The parts are prepared in another order than they are published in."""
    return random.sample(range(len(current.rows)), len(current.rows))
