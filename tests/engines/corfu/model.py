"""A small exhaustive model: every interleaving of a few clients, units, sequencers and reconfigurers.

The servers are the cores themselves, the clients the flows themselves. One action is one call that reaches whom it is
for, and whatever the client does with the answer up to its next call. States that were seen are not gone on from; a
client's state is what stands in the frames of its flow, so two ways that lead to the same are one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from tests.engines.corfu.scripts import (
    AwaitTurn,
    Begin,
    BeginSequencer,
    End,
    Handle,
    Script,
    sequencer_server,
)
from tests.engines.corfu.world import (
    Client,
    Rows,
    Violation,
    World,
    copied_sequencer,
    frames,
    marked,
    raft_answer,
    sequencer_answer,
    unit_answer,
    unit_caller,
)

from ithaca.engines.corfu.sequencing.calls import Install, Known
from ithaca.engines.corfu.sequencing.commands import FoundLog, OpenSession, Settled
from ithaca.engines.corfu.sequencing.entries import Entry, Stamp
from ithaca.engines.corfu.sequencing.flows.appending import Appended, Writer
from ithaca.engines.corfu.sequencing.flows.flow import NO_ANSWER, AskRaft, AskSequencer, AskUnit, AskUnits, Pause, Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge
from ithaca.engines.corfu.sequencing.projection import UnitMember
from ithaca.engines.corfu.sequencing.sequencer import Began, Sequencer
from ithaca.engines.corfu.sequencing.state import ProjectionState
from ithaca.engines.corfu.sequencing.unit import Unit, UnitState
from ithaca.model.view import Address

NEVER = 1 << 30


@dataclass(slots=True)
class Model:
    """A scenario, explored whole."""

    scripts: list[Script]
    sets: tuple[tuple[int, ...], ...] = ((1, 2),)
    spares: tuple[int, ...] = ()
    sequencers: tuple[int, ...] = (1,)
    contends: bool = False
    """Whether no sequencer hands out rows at first."""
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Of clients that have another session than their own number's: producer and session epoch."""
    sessions: tuple[str, ...] = ()
    losses: int = 0
    restarts: int = 0
    """How often a sequencer may be started again, and forget everything."""
    mortal: tuple[Any, ...] = ()
    """Units, and ("sequencer", number), one of which may die."""
    may_die: Callable[[World], bool] = lambda world: True
    """When one of them may."""
    cut: frozenset[tuple[int, Any]] = frozenset()
    """Whom a client does not reach."""
    bound: int = 8
    atomic: frozenset[int] = frozenset()
    """Clients that do everything at once, as soon as they begin."""
    staged: int = 0
    """So many of the scripts have come to their end, one after the other, before anything else begins."""
    is_quick: bool = True
    """Whether a sequencer begins at once when it is its turn."""
    judge: Callable[["Model", World], None] | None = None
    known: Known | None = None
    """What clients know at first."""
    states: int = 0
    ends: int = 0

    def explore(self, states_max: int = 2_000_000) -> "Model":
        """Every state that can be reached is looked at."""
        first = self._first()
        seen = {first.fingerprint()}
        stack = [first]
        while stack:
            world = stack.pop()
            self.states += 1
            assert self.states <= states_max, f"more than {states_max} states"
            for following in self._actions(world):
                self._check(following)
                mark = following.fingerprint()
                if mark not in seen:
                    seen.add(mark)
                    stack.append(following)
            if all(client.is_done or isinstance(client.effect, AwaitTurn) for client in world.clients):
                self.ends += 1
                self._judge_end(world)
        assert self.ends, "no way leads to an end"
        return self

    # The beginning

    def _first(self) -> World:
        raft = ProjectionState()
        numbers = sorted({unit for chain in self.sets for unit in chain} | set(self.spares))
        members = tuple(UnitMember(number, Address("unit", number), UUID(int=number)) for number in numbers)
        first = 0 if self.contends else self.sequencers[0]
        raft.apply(1, FoundLog(UUID(int=99), members, self.sets, first, self.bound))
        raft.apply(raft.index + 1, Settled(1))
        self.known = raft.known
        for name in self.sessions:
            raft.apply(raft.index + 1, OpenSession(name))
        servers: dict[int, Unit[int]] = {}
        for member in members:
            state = UnitState.new()
            state.epoch, state.is_sealed = 1, False
            servers[member.number] = Unit(member.identity, state, Rows())
        sequencers: dict[int, Sequencer[int]] = {}
        for number in self.sequencers:
            sequencers[number] = Sequencer(grant_rows=2)
        if first:
            sequencers[first].step(Began(1, 0, self.bound, (), 0))
        scripts = self._scripts()
        if self.is_quick:
            self.atomic |= frozenset(range(len(self.scripts), len(scripts)))
        world = World(
            raft, servers, sequencers, tuple(Client() for _ in scripts), losses=self.losses, restarts=self.restarts
        )
        for number in range(len(scripts)):
            self._advance(world, number, None)
        for number in range(self.staged):
            world = self._hurried(world, number)
            for sequencer in range(len(self.scripts), len(scripts)):
                for following in self._of_client(world, sequencer, world.clients[sequencer]):
                    world = self._hurried(following, sequencer)
        world.trail = None
        return world

    def _scripts(self) -> list[Script]:
        return [*self.scripts, *(sequencer_server(number) for number in self.sequencers)]

    def _steps(self, number: int) -> Steps[None]:
        known = self.known
        assert known is not None
        producer, epoch = self.producers.get(number, (100 + number, 1))
        knowledge = Knowledge(known, sequencers=self.sequencers, patience_ms=NEVER)
        return self._scripts()[number](Handle(knowledge, Writer(producer, epoch)))

    # Actions

    def _actions(self, world: World) -> Iterator[World]:
        for number, client in enumerate(world.clients):
            if not client.is_done:
                for following in self._of_client(world, number, client):
                    yield self._hurried(following, number) if number in self.atomic else following
        if world.restarts:
            yield from (self._restarted(world, at) for at in range(len(self.sequencers)))
        if self.mortal and not world.gone and self.may_die(world):
            for mortal in self.mortal:
                died = world.child((mortal, "dies"))
                died.gone = frozenset({mortal})
                yield died

    def _restarted(self, world: World, at: int) -> World:
        number = self.sequencers[at]
        following = world.child(("sequencer", number, "is started again"))
        following.restarts -= 1
        following.sequencers[number] = Sequencer(grant_rows=2)
        self._put(following, len(self.scripts) + at, Client())
        self._advance(following, len(self.scripts) + at, None)
        return following

    def _hurried(self, world: World, number: int) -> World:
        while not (client := world.clients[number]).is_done:
            following = next(iter(self._of_client(world, number, client)), None)
            if following is None or isinstance(client.effect, AwaitTurn):
                break
            world = following
        return world

    def _of_client(self, world: World, number: int, client: Client) -> Iterator[World]:
        effect = client.effect
        match effect:
            case Begin():
                yield self._went_on(world, number, (number, effect), None)
            case AwaitTurn(sequencer):
                known = world.raft.known
                assert known is not None
                epoch = world.sequencers[sequencer].epoch
                is_there = ("sequencer", sequencer) not in world.gone
                if known.projection.sequencer == sequencer and known.projection.epoch > epoch and is_there:
                    yield self._went_on(world, number, ("sequencer", sequencer, "has its turn"), known)
            case BeginSequencer(sequencer, began):
                following = world.child(("sequencer", sequencer, "begins", began))
                following.sequencers[sequencer] = copied_sequencer(world.sequencers[sequencer])
                following.sequencers[sequencer].step(began)
                self._advance(following, number, None)
                yield following
            case AskUnits(asked) if all(isinstance(call, Install) for _, call in asked):
                following = world.child((number, "installs"))
                answers = []
                for unit, call in asked:
                    is_reached = unit not in world.gone and (number, unit) not in self.cut
                    answers.append(unit_answer(following, unit, call) if is_reached else NO_ANSWER)
                self._advance(following, number, tuple(answers))
                yield following
            case AskUnits(asked):
                yield from self._of_units(world, number, client, asked)
            case AskUnit(unit, call):
                yield from self._asked(world, number, unit, lambda one: unit_answer(one, unit, call))
            case AskSequencer(sequencer, call):
                server = ("sequencer", sequencer)
                yield from self._asked(world, number, server, lambda one: sequencer_answer(one, sequencer, call))
            case AskRaft(call):
                yield from self._asked(world, number, "raft", lambda one: raft_answer(one, call))

    def _asked(
        self, world: World, number: int, server: Any, answer: Callable[[World], Any], part: int | None = None
    ) -> Iterator[World]:
        what = world.clients[number].effect if part is None else world.clients[number].effect.asked[part]
        if server in world.gone or (number, server) in self.cut:
            yield self._went_on(world, number, (number, what, "is not reached"), NO_ANSWER, part)
            return
        following = world.child(())
        found = answer(following)
        following.trail = ((number, what, "→", found), world.trail)
        self._take(following, number, found, part)
        yield following
        if world.losses:
            before = self._went_on(world, number, (number, what, "is lost"), NO_ANSWER, part)
            before.losses -= 1
            yield before
            after = world.child((number, what, "and the answer is lost"))
            answer(after)
            after.losses -= 1
            self._take(after, number, NO_ANSWER, part)
            yield after

    def _of_units(self, world: World, number: int, client: Client, asked: Any) -> Iterator[World]:
        answered = dict(client.parts)
        for part, (unit, call) in enumerate(asked):
            if part not in answered:
                each = unit_caller(unit, call)
                yield from self._asked(world, number, unit, each, part)

    def _went_on(self, world: World, number: int, action: Any, event: Any, part: int | None = None) -> World:
        following = world.child(action)
        self._take(following, number, event, part)
        return following

    def _take(self, world: World, number: int, event: Any, part: int | None = None) -> None:
        """The client has an answer, or a part of one."""
        if part is None:
            self._advance(world, number, event)
            return
        client = world.clients[number]
        parts = tuple(sorted((*client.parts, (part, event)), key=lambda each: each[0]))
        if len(parts) == len(client.effect.asked):
            self._advance(world, number, tuple(answer for _, answer in parts))
        else:
            self._put(world, number, marked(replace(client, parts=parts, local=client.mark)))

    def _put(self, world: World, number: int, client: Client) -> None:
        world.clients = (*world.clients[:number], client, *world.clients[number + 1 :])

    def _advance(self, world: World, number: int, event: Any) -> None:
        """Have the client go on to its next call."""
        client = world.clients[number]
        steps: Any = self._steps(number)
        events = client.events
        if client.effect is not None:
            events = (*events, event)
        floor = _floor(world, client.effect) if isinstance(client.effect, Begin) else client.floor
        try:
            effect = steps.send(None)
            for each in events:
                effect = steps.send(each)
            while isinstance(effect, End | Pause):
                if isinstance(effect, End):
                    self._note(world, number, effect, floor)
                events = (*events, None)
                effect = steps.send(None)
        except StopIteration:
            self._put(world, number, Client(is_done=True))
            return
        self._put(world, number, marked(Client(events, effect, (), floor, frames(steps))))

    # What must hold

    def _note(self, world: World, number: int, end: End, floor: Any) -> None:
        facts = world.facts
        match end:
            case End("append", stamp, Appended(row, _)):
                if floor is not None and row <= floor[0]:
                    raise Violation(f"row {row} is acknowledged, and {floor[0]} was before it began\n{world.story()}")
                facts = replace(facts, acked=facts.acked | {(stamp, row)})
                self._see(world, row, Entry(stamp))
                facts = replace(world.facts, acked=facts.acked)
            case End("write", (stamp, row), Entry() as entry):
                if entry.stamp == stamp:
                    facts = replace(facts, acked=facts.acked | {(stamp, row)})
                self._see(world, row, entry)
                facts = replace(world.facts, acked=facts.acked)
            case End("tail", _, row):
                if row <= floor[0]:
                    raise Violation(f"the tail is {row}, and row {floor[0]} was acknowledged before\n{world.story()}")
                if row < floor[2]:
                    raise Violation(f"the tail is {row}, and was {floor[2]} before\n{world.story()}")
                facts = replace(facts, tail=max(facts.tail, row))
            case End("read" | "settle", row, Entry() as entry):
                self._see(world, row, entry)
                facts = world.facts
            case End("read", row, state):
                known = dict(floor[1]).get(row)
                if known is not None and state != "trimmed":
                    raise Violation(f"row {row} is {state}, and {known} was seen before\n{world.story()}")
        world.facts = facts

    def _see(self, world: World, row: int, entry: Entry) -> None:
        plain = Entry(entry.stamp)
        for other_row, other in world.facts.seen:
            if other_row == row and other != plain:
                raise Violation(f"row {row} holds {plain}, and {other} was seen there\n{world.story()}")
        world.facts = replace(world.facts, seen=world.facts.seen | {(row, plain)})

    def _check(self, world: World) -> None:
        """Of every state: the units of a chain never have different entries in a row, and the head has what others
        have.

        (invariants 1 and 6)
        """
        known = world.raft.known
        assert known is not None
        projection = known.projection
        rows = {row for unit in world.units.values() for row in unit._held}  # type: ignore[attr-defined]
        for row in rows:
            found = [
                world.units[unit]._held.get(row)  # type: ignore[attr-defined]
                for unit in projection.chain(row)
                if row not in world.units[unit].state.trims
            ]
            entries = {entry for entry in found if entry is not None}
            if len(entries) > 1:
                raise Violation(f"the chain of row {row} has {entries}\n{world.story()}")
            if entries and found[0] is None:
                raise Violation(f"the head of row {row} lacks what others have\n{world.story()}")

    def _judge_end(self, world: World) -> None:
        """Everybody has come to an end: each batch is there once, and what was acknowledged is where it was."""
        log = final_log(world)
        for row, entry in world.facts.seen:
            if log.get(row) != entry and not is_trimmed(world, row):
                raise Violation(f"row {row} ends as {log.get(row)}, and {entry} was seen there\n{world.story()}")
        where: dict[Stamp, int] = {}
        for row, entry in log.items():
            if entry.stamp is not None:
                numbered = replace(entry.stamp, epoch=0)  # handles of a session write the same batch under one number
                if numbered in where:
                    raise Violation(f"{entry.stamp} is in rows {where[numbered]} and {row}\n{world.story()}")
                where[numbered] = row
        for stamp, row in world.facts.acked:
            if log.get(row) != Entry(stamp) and not is_trimmed(world, row):
                raise Violation(f"{stamp} was acknowledged in row {row}, which has {log.get(row)}\n{world.story()}")
        if self.judge is not None:
            self.judge(self, world)


def is_trimmed(world: World, row: int) -> bool:
    """Whether somebody has let the row go."""
    assert world.raft.projection is not None
    return any(row in world.units[unit].state.trims for unit in world.raft.projection.chain(row))


def final_log(world: World) -> dict[int, Entry]:
    """What every row would be settled to, by the units that are left: the head decides."""
    known = world.raft.known
    assert known is not None
    log: dict[int, Entry] = {}
    rows = {row for unit in world.units.values() for row in unit._held}  # type: ignore[attr-defined]
    for row in sorted(rows):
        chain = [unit for unit in known.projection.chain(row) if unit not in world.gone]
        found = [world.units[unit]._held.get(row) for unit in chain]  # type: ignore[attr-defined]
        if found and found[0] is not None:
            log[row] = Entry(found[0].stamp)
    return log


def _floor(world: World, begin: Begin) -> Any:
    """What was told before an operation began: the highest row that was acknowledged, and the rows that were seen."""
    highest = max((row for _, row in world.facts.acked), default=-1)
    return highest, (world.facts.seen if begin.what == "read" else frozenset()), world.facts.tail
