"""Named consumers of a simulated cluster: programs that read on where they were, and fence each other.

What they are told is compared with what they were told before: a position never falls but by a reset, what was
committed is never lost, and whoever was fenced commits nothing. What they are handed out is judged by the checker, as
of any subscription. Where they write for what they take (`sim.clients.taking`), each record is written for exactly
once; they are never reset then, but go on under another name. Drawn apart from the rest, so that the seeds without
consumers stay what they were.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from ithaca.engines.registry import engine
from ithaca.model.consumers import PartStands
from ithaca.model.engine import Feature
from ithaca.model.errors import ConsumerFenced, IthacaError, Trimmed
from ithaca.model.interface.awaited import ClusterLog, Consumer
from ithaca.model.records import HASH_SPACE, KeyFilter, Record, Start
from ithaca.sim.clients.connecting import AGAIN_S, connected
from ithaca.sim.clients.readers import text_of
from ithaca.sim.clients.taking import GivenUp, OutSessions, Taking
from ithaca.sim.process import Process

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.world import World

RULE = "consumers"
_KEYED = text_of(KeyFilter.hash_range(0, HASH_SPACE))
_CHANCE = 0.2
_ROUNDS_MAX = 20
"""What a handle does before it is given up, and the consumer opened again."""


def with_consumers(configuration: "Configuration") -> "Configuration":
    """The same, or with one program that consumes, or with two of one name."""
    random = Random(f"consumers of {configuration.seed}")
    if random.random() >= _CHANCE:
        return configuration
    return replace(configuration, consumers=random.randint(1, 2))


@dataclass
class Ledger:
    """What all programs of one name have asked for, and what they were told."""

    out: OutSessions | None = None
    """Where they write for what they take, unless they only read."""
    name: str = "shared-0"
    floor: int = 1
    """A position that was committed, for certain, and not reset since."""
    attempted: int = 0
    """The highest position that anybody wanted to commit, or to reset to."""
    moment: int = 0
    """Counts what was begun, and what has returned."""
    opened: int = 0
    """When the last opening was begun that has returned: whoever had the consumer by then is fenced."""
    asked: int = 0
    """When an opening, or a reset, was begun last."""
    under_way: int = 0
    """Openings that have not returned, and may still come about; those of programs that were killed included."""
    resets: int = 0
    resetting: int = 0
    """Resets that have not returned."""
    reached: int = 0
    """Everything below was handed out to one of them."""
    one_is_done: bool = False
    """Whether one of them has everything, and has ended; more may have been acknowledged since."""

    def tick(self) -> int:
        """Now."""
        self.moment += 1
        return self.moment

    def renew(self) -> None:
        """Nobody knows whether a reset will still come about: go on under another name."""
        number = int(self.name.removeprefix("shared-")) + 1
        self.name, self.floor, self.attempted, self.resetting = f"shared-{number}", 1, 0, 0
        self.resets += 1


class Handle(NamedTuple):
    """An opening that has returned: when it was begun, when it returned, whether it was alone, and what it took."""

    consumer: Consumer
    asked: int
    returned: int
    is_alone: bool
    taking: Taking


class Consuming:
    """A program that consumes."""

    def __init__(self, world: "World", number: int, ledger: Ledger) -> None:
        self.name = f"consumer-{number}"
        self._number = number
        self.succeeded = 0
        """Commits that were acknowledged."""
        self._world = world
        self._ledger = ledger
        self._is_resetting = False
        features = engine(world.configuration.engine).features
        self._is_dense = Feature.DENSE in features
        self._publishes = self._is_dense and Feature.PREPARED in features
        """Where positions are not dense a publication opens windows, and these would be all that happens."""
        self._ways = Random(f"{world.configuration.seed} {self.name} commits")
        self._is_taking = False

    @property
    def has_all(self) -> bool:
        """Whether everything that was acknowledged was handed out; of those who write, whether they are done."""
        return self._ledger.reached > self._last if self._ledger.out is None else not self._is_taking

    @property
    def _last(self) -> int:
        recorder = self._world.recorder
        return recorder.last_position if self._is_dense else recorder.last_record

    @property
    def _is_done(self) -> bool:
        """Whether it writes, and everything is committed that was acknowledged; others just go on."""
        return self._ledger.out is not None and not self._world.is_loaded and self._ledger.floor > self._last

    def _is_left_behind(self, name: str) -> bool:
        """Whether all is mended, and the other has gone on under another name than this.

        The other waits then for this program to commit under the new one, and under the old there may be nothing more.
        """
        return self._world.is_healing and name != self._ledger.name

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        if self._is_resetting:
            self._ledger.renew()
            self._is_resetting = False
        self._is_taking = True
        log = await connected(self._world)
        while not self._is_done:
            if self._world.is_healing and self._number and not self._ledger.one_is_done:
                # Each new subscription waits again for what is missing: two that fence each other would wait for ever.
                await asyncio.sleep(AGAIN_S)
                continue
            try:
                await self._consume(random, log)
                if random.random() < 0.1 and not self._world.is_healing:
                    await self._reset(random, log)
            except ConsumerFenced:
                self._world.count("consumer fenced")
            except GivenUp:
                self._world.count("consumer transaction given up")
            except Trimmed as error:
                self._world.met(error, "consume")
                await self._reset(random, log, to_first=True)
            except IthacaError as error:
                self._world.met(error, "consume" if self._ledger.out is None else "take and write")
            await asyncio.sleep(random.uniform(0, 4 * AGAIN_S))
        self._is_taking, self._ledger.one_is_done = False, True

    async def _consume(self, random: Random, log: ClusterLog) -> None:
        """Open the consumer, read on, and commit now and then."""
        ledger, recorder = self._ledger, self._world.recorder
        floor, resets = ledger.floor, ledger.resets
        ledger.asked = asked = ledger.tick()
        inv, name = recorder.now_ns(), ledger.name
        is_alone = not ledger.under_way and not ledger.resetting
        ledger.under_way += 1
        consumer = await log.consumer(name)
        ledger.under_way -= 1
        handle = Handle(consumer, asked, ledger.tick(), is_alone, Taking(recorder, name, ledger.out))
        if name != ledger.name:
            return
        ledger.opened = max(ledger.opened, asked)
        self._check_opened(consumer, floor if resets == ledger.resets and not ledger.resetting else 1)
        number = self._subscribed(handle, inv)
        try:
            rounds = random.randint(1, _ROUNDS_MAX)
            while rounds > 0 and not self._is_done and not self._is_left_behind(name):
                rounds -= not self._world.is_healing  # once all is mended, it gets on with what it has
                records = await consumer.poll(timeout=1, max_records=random.randint(1, 50))
                self._handed_out(handle, number, records)
                ledger.reached = max(ledger.reached, consumer.position)
                is_waited_for = ledger.out is not None and not self._world.is_loaded
                if random.random() < (0.05 if self._world.is_healing and not is_waited_for else 0.7):
                    await self._commit(log, handle)
        finally:
            await consumer.close()

    def _subscribed(self, handle: Handle, inv: int) -> int:
        """The subscription that it is: whoever writes takes what has a key."""
        consumer = handle.consumer
        if self._ledger.out is None:
            return self._world.recorder.subscribed(consumer.position, None, inv)
        stands = PartStands(consumer.name, 0, consumer.epoch, consumer.position)
        return handle.taking.opened(stands, _KEYED, inv)

    def _handed_out(self, handle: Handle, number: int, records: Sequence[Record]) -> None:
        recorder, is_writing = self._world.recorder, self._ledger.out is not None
        taken = [record for record in records if record.key is not None or not is_writing]
        recorder.delivered(number, taken)
        recorder.marked(number, handle.consumer.position)
        handle.taking.took(0, [record.position for record in taken])

    def _check_opened(self, consumer: Consumer, floor: int) -> None:
        ledger, first = self._ledger, max(self._world.ordered.first, self._world.recorder.trimmed)
        if consumer.position < floor:
            self._accuse(f"goes on at {consumer.position}, and {floor} was committed")
        if consumer.position > max(ledger.attempted, first):
            self._accuse(f"goes on at {consumer.position}, and nobody committed more than {ledger.attempted}")
        if ledger.out is not None:  # nobody resets it, so whoever was told nothing has committed that
            ledger.floor = max(ledger.floor, consumer.position)

    async def _committed(self, log: ClusterLog, handle: Handle) -> int:
        """With what is written for what was taken; else by itself, or with a publication of nothing: it is refused, or
        done, like any.
        """
        consumer = handle.consumer
        if handle.taking.must_write:
            await handle.taking.write(log, consumer, self._ways)
            self._world.count("consumer committed what it wrote")
            return consumer.committed
        if not self._publishes or self._ways.random() < 0.5:
            return await consumer.commit()
        position = consumer.position
        await log.publish_once([], consumed={consumer: position})
        self._world.count("consumer committed by a publication")
        return position

    async def _commit(self, log: ClusterLog, handle: Handle) -> None:
        ledger, consumer = self._ledger, handle.consumer
        name = consumer.name  # the others may have gone on under another one
        was_fenced, resets = ledger.opened > handle.returned, ledger.resets
        if name == ledger.name:
            ledger.attempted = max(ledger.attempted, consumer.position)
        lines = [] if ledger.out is None else handle.taking.commits(consumer.commits(consumer.position))
        try:
            told = await self._committed(log, handle)
        except ConsumerFenced:
            if handle.is_alone and ledger.asked == handle.asked and name == ledger.name:
                self._accuse("was fenced, and nobody has opened or reset it since")
            raise
        handle.taking.committed(lines)
        if was_fenced and name == ledger.name:
            self._accuse(f"has committed {told} by a handle that was fenced before")
        if told < consumer.position:
            self._accuse(f"was told {told} when it committed {consumer.position}")
        if name == ledger.name and resets == ledger.resets and not ledger.resetting:
            ledger.floor = max(ledger.floor, told)
        self.succeeded += 1
        self._world.count("consumer committed")

    async def _reset(self, random: Random, log: ClusterLog, *, to_first: bool = False) -> None:
        """Move it to where it stands, or before; `first` is where the log begins."""
        ledger = self._ledger
        if ledger.out is not None:
            ledger.renew()  # what was written for what it took stays
            return
        ledger.asked = ledger.tick()
        ledger.resets += 1
        ledger.resetting += 1
        ledger.floor, self._is_resetting = 1, True
        to: Start = "earliest" if to_first or random.random() < 0.5 else random.randint(1, max(1, ledger.attempted))
        if isinstance(to, int):
            ledger.attempted = max(ledger.attempted, to)
        try:
            await log.reset_consumer(ledger.name, to)
        except IthacaError as error:
            if not isinstance(error, ConsumerFenced | Trimmed):
                self._world.met(error, "reset a consumer")
            ledger.renew()
        else:
            ledger.resetting = max(0, ledger.resetting - 1)
            self._world.count("consumer reset")
        self._is_resetting = False

    def _accuse(self, text: str) -> None:
        self._world.accuse(RULE, f"the consumer {self._ledger.name} {text}")
