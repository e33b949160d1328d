"""Members of a group in a simulated cluster: programs that share the records of a log by their keys.

What they are told is compared with what all of them were told before: a part is handed out by who has opened it last,
and by nobody else; whoever lost a part commits nothing of it; what was committed is never lost; a part that was handed
over goes on where it was finished. What a part hands out is judged by the checker, as of a subscription with its
filter. Drawn apart from the rest, so that the seeds without groups stay what they were.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.client.consuming.awaited.member import GroupHandle
from ithaca.client.consuming.held_parts import part_of
from ithaca.engines.registry import engine
from ithaca.model.consumers import PartStands
from ithaca.model.engine import Feature
from ithaca.model.errors import ConsumerFenced, IthacaError, Trimmed
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.records import KeyFilter, Record
from ithaca.sim.clients.connecting import AGAIN_S, connected
from ithaca.sim.clients.readers import text_of
from ithaca.sim.process import Process

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.world import World

RULE = "groups"
PARTS = 4
_CHANCE = 0.12
_ROUNDS_MAX = 40
"""What a member does before it leaves, and comes back."""


def with_groups(configuration: "Configuration") -> "Configuration":
    """The same, or with two or three members of a group."""
    random = Random(f"groups of {configuration.seed}")
    if random.random() >= _CHANCE:
        return configuration
    return replace(configuration, group_members=random.randint(2, 3))


@dataclass
class GroupLedger:
    """What all members of one group have asked for, and what they were told, by part."""

    number: int = 0
    opened: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """The newest epoch that somebody was told."""
    floor: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """A position that was committed, for certain."""
    attempted: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """The highest position that anybody wanted to commit."""
    finished: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Where the part stood when a member handed it over as it was asked to."""
    reached: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Everything below was handed out."""

    @property
    def name(self) -> str:
        return f"group-{self.number}"

    def renew(self) -> None:
        """What it stands at was trimmed: go on with another group."""
        self.number += 1
        for each in (self.opened, self.floor, self.attempted, self.finished):
            each.clear()


class Grouped:
    """A program that is a member."""

    def __init__(self, world: "World", number: int, ledger: GroupLedger) -> None:
        self.name = f"member-{number}"
        self.succeeded = 0
        """Commits that were acknowledged."""
        self._world = world
        self._ledger = ledger
        features = engine(world.configuration.engine).features
        self._publishes = {Feature.PREPARED, Feature.DENSE} <= features

    @property
    def has_all(self) -> bool:
        """Whether everything that was acknowledged was handed out."""
        last = self._world.recorder.last_position
        return all(self._ledger.reached[part] > last for part in range(PARTS))

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        log = await connected(self._world)
        while True:
            try:
                await self._take_part(random, log)
            except Trimmed as error:
                self._world.met(error, "consume")
                self._ledger.renew()
            except IthacaError as error:
                self._world.met(error, "consume")
            await asyncio.sleep(random.uniform(0, 4 * AGAIN_S))

    async def _take_part(self, random: Random, log: ClusterLog) -> None:
        """Join, read, and commit now and then."""
        member = Membership(self._world, self._ledger)
        handle = await log.consumer(
            self._ledger.name,
            group=True,
            parts=PARTS,
            lease=random.choice((1, 2, 10)),
            commit_records=random.choice((None, 5)),
            on_assigned=member.assigned,
            on_revoked=member.revoked,
        )
        assert isinstance(handle, GroupHandle)
        await member.begin(handle)
        try:
            rounds = random.randint(1, _ROUNDS_MAX)
            while rounds > 0 and member.is_current:
                is_hurried = self._world.is_healing  # once all is mended, it gets on with what it has
                rounds -= not is_hurried
                most = random.randint(1, 30) * (10 if is_hurried else 1)
                member.handed_out(await handle.poll(timeout=random.uniform(0, 0.2), max_records=most))
                if random.random() < 0.6:
                    await self._commit(random, log, member)
                pause = random.choice((0, 0, 0, random.uniform(0, 3)))
                await asyncio.sleep(0 if is_hurried else pause)
        finally:
            await handle.close()

    async def _commit(self, random: Random, log: ClusterLog, member: "Membership") -> None:
        handle = member.handle
        commits = handle.commits(handle.position)
        was_fenced = [each.part for each in commits if self._ledger.opened[each.part] > each.epoch]
        for each in commits:
            self._ledger.attempted[each.part] = max(self._ledger.attempted[each.part], each.position)
        try:
            if self._publishes and random.random() < 0.3:
                await log.publish_once([], consumed={handle: handle.position})
            else:
                await handle.commit()
        except ConsumerFenced:
            self._world.count("group member fenced")
            member.look()
            return
        if not member.is_current:
            return
        if was_fenced:
            member.accuse(f"has committed parts {was_fenced}, which others had opened before")
        for each in commits:
            self._ledger.floor[each.part] = max(self._ledger.floor[each.part], each.position)
        member.look()
        self.succeeded += 1
        self._world.count("group committed")


class Membership:
    """One handle, and what it was told of its parts."""

    def __init__(self, world: "World", ledger: GroupLedger) -> None:
        self._world = world
        self._ledger = ledger
        self._number = ledger.number
        self._handle: GroupHandle | None = None
        self._early: list[int] = []
        """Parts that it got before the handle was there."""
        self._epochs: dict[int, int] = {}
        self._subscriptions: dict[int, int] = {}
        self._leaving: dict[int, int] = {}

    @property
    def handle(self) -> GroupHandle:
        assert self._handle is not None
        return self._handle

    @property
    def is_current(self) -> bool:
        """Whether all of them still are in this group."""
        return self._number == self._ledger.number

    def accuse(self, text: str) -> None:
        self._world.accuse(RULE, f"a member of {self._ledger.name} {text}")

    async def begin(self, handle: GroupHandle) -> None:
        """It has become a member."""
        self._handle = handle
        await self.assigned(self._early)

    async def assigned(self, parts: Sequence[int]) -> None:
        if self._handle is None:
            self._early += parts
            return
        for stands in self._stands(parts):
            self._check_opened(stands)
            where = text_of(KeyFilter.part(stands.part, PARTS))
            recorder = self._world.recorder
            self._epochs[stands.part] = stands.epoch
            self._subscriptions[stands.part] = recorder.subscribed(stands.position, where, recorder.now_ns())
            self._world.count("group part opened")

    def _stands(self, parts: Sequence[int]) -> list[PartStands]:
        return [stands for stands in self.handle.standing if stands.part in parts]

    def _check_opened(self, stands: PartStands) -> None:
        ledger, part, position = self._ledger, stands.part, stands.position
        if not self.is_current:
            return
        first = max(self._world.ordered.first, self._world.recorder.trimmed)
        if position < ledger.floor[part]:
            self.accuse(f"goes on with part {part} at {position}, and {ledger.floor[part]} was committed")
        if position < ledger.finished[part]:
            self.accuse(f"goes on with part {part} at {position}, which was handed over at {ledger.finished[part]}")
        if position > max(ledger.attempted[part], first):
            self.accuse(
                f"goes on with part {part} at {position}, and {ledger.attempted[part]} is all that was committed"
            )
        ledger.opened[part] = max(ledger.opened[part], stands.epoch)

    async def revoked(self, parts: Sequence[int]) -> None:
        held = self._stands(parts) if self._handle is not None else []
        for part in parts:
            self._leaving.pop(part, None)
        for stands in held:
            self._leaving[stands.part] = stands.position
            self._world.count("group part asked back")

    def handed_out(self, records: Sequence[Record]) -> None:
        """A poll has returned."""
        stands = {each.part: each for each in self.handle.standing}
        for record in records:
            part = part_of(record.key, PARTS)
            epoch = self._epochs.get(part, 0)
            if self.is_current and self._ledger.opened[part] > epoch:
                self.accuse(f"hands out position {record.position} of part {part}, which another has opened since")
            if record.key is not None:
                self._world.recorder.delivered(self._subscriptions[part], [record])
        for part, each in stands.items():
            if each.epoch == self._epochs.get(part):
                self._world.recorder.marked(self._subscriptions[part], each.position)
                self._ledger.reached[part] = max(self._ledger.reached[part], each.position)
                self._ledger.attempted[part] = max(self._ledger.attempted[part], each.position)
        self.look()

    def look(self) -> None:
        """What it has handed over goes on there."""
        for part in set(self._leaving) - set(self.handle.parts):
            position = self._leaving.pop(part)
            if self.is_current:
                self._ledger.finished[part] = max(self._ledger.finished[part], position)
            self._world.count("group part handed over")
