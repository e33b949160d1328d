"""Members of a group in a simulated cluster: programs that share the records of a log by their keys.

What they are told is compared with what all of them were told before: a part is handed out by who has opened it last,
and by nobody else; whoever lost a part commits nothing of it; what was committed is never lost; a part that was handed
over goes on where it was finished. What a part hands out is judged by the checker, as of a subscription with its
filter; where members write for what they take (`sim.clients.taking`), each record is written for exactly once. Drawn
apart from the rest, so that the seeds without groups stay what they were.
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
from ithaca.sim.clients.taking import GivenUp, OutSessions, Taking
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

    out: OutSessions | None = None
    """Where members write for what they take, unless they only read."""
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
        self._ways = Random(f"{world.configuration.seed} {self.name} writes")
        self._is_taking = False

    @property
    def has_all(self) -> bool:
        """Whether everything that was acknowledged was handed out; of those who write, whether they are done."""
        last = self._world.recorder.last_position
        return not self._is_taking if self._writes else all(self._ledger.reached[part] > last for part in range(PARTS))

    @property
    def _writes(self) -> bool:
        return self._ledger.out is not None

    @property
    def _is_done(self) -> bool:
        """Whether it writes, and everything is committed that was acknowledged; others just go on."""
        if self._world.is_loaded or not self._writes:
            return False
        last = self._world.recorder.last_position
        return all(self._ledger.floor[part] > last for part in range(PARTS))

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        self._is_taking = True
        log = await connected(self._world)
        while not self._is_done:
            try:
                await self._take_part(random, log)
            except Trimmed as error:
                self._world.met(error, "consume")
                self._ledger.renew()
            except IthacaError as error:
                self._world.met(error, "consume")
            await asyncio.sleep(random.uniform(0, 4 * AGAIN_S))
        self._is_taking = False

    async def _take_part(self, random: Random, log: ClusterLog) -> None:
        """Join, read, and commit now and then."""
        member = Membership(self._world, self._ledger)
        handle = await log.consumer(
            self._ledger.name,
            group=True,
            parts=PARTS,
            lease=random.choice((1, 2, 10)),
            commit_records=None if self._writes else random.choice((None, 5)),
            on_assigned=member.assigned,
            on_revoked=member.revoked,
        )
        assert isinstance(handle, GroupHandle)
        await member.begin(handle)
        try:
            rounds = random.randint(1, _ROUNDS_MAX)
            while rounds > 0 and member.is_current and not self._is_done:
                is_hurried = self._world.is_healing  # once all is mended, it gets on with what it has
                rounds -= not is_hurried
                most = random.randint(1, 30) * (10 if is_hurried else 1)
                inv = self._world.recorder.now_ns()
                member.handed_out(await handle.poll(timeout=random.uniform(0, 0.2), max_records=most), inv)
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
        lines, writes = member.taking.commits(commits), member.taking.must_write
        try:
            await self._committed(random, log, member)
        except GivenUp:
            self._world.count("group transaction given up")
            return
        except ConsumerFenced:
            self._world.count("group member fenced")
            member.look()
            return
        except IthacaError as error:
            if not writes:
                raise
            self._world.met(error, "take and write")  # all comes again, of this handle, too
            return
        member.taking.committed(lines)
        if not member.is_current:
            return
        if was_fenced:
            member.accuse(f"has committed parts {was_fenced}, which others had opened before")
        for each in commits:
            self._ledger.floor[each.part] = max(self._ledger.floor[each.part], each.position)
        member.look()
        self.succeeded += 1
        self._world.count("group committed")

    async def _committed(self, random: Random, log: ClusterLog, member: "Membership") -> None:
        """With what is written for what was taken, else with a publication of nothing, or by itself."""
        if member.taking.must_write:
            await member.taking.write(log, member.handle, self._ways)
            self._world.count("group committed what it wrote")
        elif self._publishes and random.random() < 0.3:
            await log.publish_once([], consumed={member.handle: member.handle.position})
        else:
            await member.handle.commit()


class Membership:
    """One handle, and what it was told of its parts."""

    def __init__(self, world: "World", ledger: GroupLedger) -> None:
        self._world = world
        self._ledger = ledger
        self._number = ledger.number
        self.taking = Taking(world.recorder, ledger.name, ledger.out)
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
            self._epochs[stands.part] = stands.epoch
            self._subscriptions[stands.part] = self.taking.opened(stands, where, self._world.recorder.now_ns())
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
        ledger.floor[part] = max(ledger.floor[part], position)  # whoever was told nothing has committed it

    async def revoked(self, parts: Sequence[int]) -> None:
        held = self._stands(parts) if self._handle is not None else []
        for part in parts:
            self._leaving.pop(part, None)
        self._may_commit(held)
        for stands in held:
            self._leaving[stands.part] = stands.position
            self._world.count("group part asked back")

    def handed_out(self, records: Sequence[Record], inv: int) -> None:
        """A poll that began at `inv` has returned."""
        stands = {each.part: each for each in self.handle.standing}
        taken: dict[int, list[int]] = defaultdict(list)
        for record in records:
            part = part_of(record.key, PARTS)
            epoch = self._epochs.get(part, 0)
            if self.is_current and self._ledger.opened[part] > epoch:
                self.accuse(f"hands out position {record.position} of part {part}, which another has opened since")
            if record.key is not None:
                self._world.recorder.delivered(self._subscriptions[part], [record])
                taken[part].append(record.position)
        for part, positions in taken.items():
            self.taking.handed_out(self._subscriptions[part], part, positions, inv)
        for part, each in stands.items():
            if each.epoch == self._epochs.get(part):
                self._world.recorder.marked(self._subscriptions[part], each.position)
                self._ledger.reached[part] = max(self._ledger.reached[part], each.position)
        self._may_commit(self.handle.standing)
        self.look()

    def _may_commit(self, standing: Sequence[PartStands]) -> None:
        """The handle may do so by itself, unless it writes what it commits."""
        if self._ledger.out is not None:
            return
        self.taking.may_commit(standing)
        for stands in standing:
            self._ledger.attempted[stands.part] = max(self._ledger.attempted[stands.part], stands.position)

    def look(self) -> None:
        """What it has handed over goes on there."""
        for part in set(self._leaving) - set(self.handle.parts):
            position = self._leaving.pop(part)
            if self.is_current:
                self._ledger.finished[part] = max(self._ledger.finished[part], position)
            self._world.count("group part handed over")
