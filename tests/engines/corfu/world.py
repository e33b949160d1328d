"""The world of the model: the cores of all servers, and the clients as they are after some events."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import GeneratorType
from typing import Any

from ithaca.engines.corfu.sequencing import sequencer as sequencing
from ithaca.engines.corfu.sequencing import unit as units
from ithaca.engines.corfu.sequencing.calls import GetProjection, Known, RowHolds, RowsHold
from ithaca.engines.corfu.sequencing.commands import GetSession, GetSessions, Grant
from ithaca.engines.corfu.sequencing.entries import Entry, Stamp
from ithaca.engines.corfu.sequencing.flows.appending import Writer
from ithaca.engines.corfu.sequencing.flows.flow import AskRaft
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge
from ithaca.engines.corfu.sequencing.flows.opening import OpenedSession
from ithaca.engines.corfu.sequencing.placed import PlacedTable
from ithaca.engines.corfu.sequencing.projection import Projection
from ithaca.engines.corfu.sequencing.sequencer import Sequencer
from ithaca.engines.corfu.sequencing.state import ProjectionState
from ithaca.engines.corfu.sequencing.trims import Trims
from ithaca.engines.corfu.sequencing.unit import Unit, UnitState


class Violation(AssertionError):
    """An invariant does not hold; the actions that led there are in the message."""


class Rows(dict[int, Entry]):
    """The rows that a unit holds."""

    def missing(self, start: int, stop: int, step: int, count: int) -> tuple[list[int], int]:
        found = [row for row in range(start, stop, step) if row not in self][:count]
        return found, found[-1] + step if len(found) == count else stop


# The world


@dataclass(frozen=True, slots=True)
class Client:
    """A client as its flow is after these events, and what it wants now."""

    events: tuple[Any, ...] = ()
    effect: Any = None
    parts: tuple[Any, ...] = ()
    """Answers of the units of an `AskUnits` so far."""
    floor: Any = None
    """What was known when its operation began."""
    local: Any = ()
    """The frames of its flow."""
    is_done: bool = False
    mark: int = 0
    """The hash of all but the events."""


def marked(client: Client) -> Client:
    local = (_plain(client.effect), client.parts, client.floor, client.local, client.is_done)
    return replace(client, mark=hash(local), local=())


@dataclass(frozen=True, slots=True)
class Facts:
    """What users were told."""

    acked: frozenset[tuple[Stamp, int]] = frozenset()
    seen: frozenset[tuple[int, Entry]] = frozenset()
    """Rows that somebody was told the content of."""
    tail: int = 0
    """The highest that was told."""


@dataclass(slots=True)
class World:
    raft: ProjectionState
    units: dict[int, Unit[int]]
    sequencers: dict[int, Sequencer[int]]
    clients: tuple[Client, ...]
    facts: Facts = Facts()
    gone: frozenset[Any] = frozenset()
    """Units, and ("sequencer", number), that are dead for good."""
    losses: int = 0
    """Answers that may still be lost."""
    restarts: int = 0
    """Sequencers that may still be started again."""
    trail: Any = None

    def fingerprint(self) -> int:
        servers = tuple(_mark(unit, _unit_state) for unit in self.units.values())
        sequencers = tuple(_mark(each, _sequencer_state) for each in self.sequencers.values())
        clients = tuple(each.mark for each in self.clients)
        raft = _mark(self.raft, _raft_state)
        return hash((servers, sequencers, clients, raft, self.facts, self.gone, self.losses, self.restarts))

    def child(self, action: Any) -> "World":
        return World(
            self.raft,
            dict(self.units),
            dict(self.sequencers),
            self.clients,
            self.facts,
            self.gone,
            self.losses,
            self.restarts,
            (action, self.trail),
        )

    def story(self) -> str:
        actions = []
        trail = self.trail
        while trail is not None:
            actions.append(" ".join(map(str, trail[0])))
            trail = trail[1]
        return "\n".join(reversed(actions))


def _mark(server: Any, state: Callable[[Any], Any]) -> int:
    """The hash of a server's state, which is copied before it changes."""
    mark = server.__dict__.get("mark")
    if mark is None:
        mark = server.__dict__["mark"] = hash(state(server))
    return int(mark)


def _raft_state(raft: ProjectionState) -> Any:
    return _plain(raft.known), tuple(raft._sessions.items())


def _unit_state(unit: Unit[int]) -> Any:
    state = unit.state
    held = tuple(sorted((row, entry.stamp or 0) for row, entry in unit._held.items()))  # type: ignore[attr-defined]
    placed = tuple((producer, *batches) for producer, batches in state.placed.items())
    return unit.epoch, unit.is_sealed, str(held), state.trims.below, state.trims.ranges, state.highest, placed


def _sequencer_state(each: Sequencer[int]) -> Any:
    sessions = tuple((producer, one.epoch, one.row) for producer, one in each._sessions.items())
    return each.epoch, each.next_row, each.bound, sessions, tuple(each._fences.items())


def _copied_unit(unit: Unit[int]) -> Unit[int]:
    state = unit.state
    trims = Trims(state.trims.below, state.trims.ranges)
    placed = PlacedTable(state.placed.items())
    copied = UnitState(state.epoch, state.is_sealed, state.highest, state.time_us, trims, placed)
    return Unit(unit.identity, copied, Rows(unit._held))  # type: ignore[call-overload]


def copied_sequencer(each: Sequencer[int]) -> Sequencer[int]:
    copied: Sequencer[int] = Sequencer(grant_rows=each._grant_rows)
    copied.__dict__.update(each.__dict__)
    copied.__dict__.pop("mark", None)
    copied._sessions = each._sessions.__class__()
    for producer, one in each._sessions.items():
        session = copied._sessions[producer] = sequencing._Session(one.epoch)
        session.row, session.time_us = one.row, one.time_us
    copied._fences = dict(each._fences)
    return copied


def _copied_raft(raft: ProjectionState) -> ProjectionState:
    copied = ProjectionState()
    copied.__dict__.update(raft.__dict__)
    copied.__dict__.pop("mark", None)
    copied._sessions = raft._sessions.copy()
    return copied


_IGNORED = frozenset({"patience", "pause", "units", "handle", "copying"})


def frames(steps: Any) -> Any:
    """What stands in the frames of a generator, as something that can be compared."""
    found = []
    while isinstance(steps, GeneratorType) and steps.gi_frame is not None:
        frame = steps.gi_frame
        found.append((frame.f_code.co_name, frame.f_lasti))
        found += [(name, _plain(value)) for name, value in frame.f_locals.items() if name not in _IGNORED]
        handle = frame.f_locals.get("handle")
        if handle is not None:
            found.append((_plain(handle.knowledge), _plain(handle.writer)))
        steps = steps.gi_yieldfrom
    return tuple(found)


def _plain(value: Any) -> Any:
    if isinstance(value, int | str | tuple | Entry | None):
        return value
    if isinstance(value, Knowledge):
        return _plain(value.known), value.reached
    if isinstance(value, Known):
        return value.projection.epoch, value.projection.is_begun, value.bound, value.trim
    if isinstance(value, AskRaft):
        return _plain(value.call)
    if isinstance(value, Projection):
        return value.epoch
    if isinstance(value, Writer):
        return (value.producer, value.epoch, value.settled_row, value.checked_epoch)
    if isinstance(value, OpenedSession):
        return _plain(value.writer), value.placed
    if isinstance(value, dict):
        return tuple((key, _plain(one)) for key, one in value.items())
    if isinstance(value, GeneratorType | Iterator):
        return None  # the place in the loop is in its variable
    if isinstance(value, list):
        return tuple(map(_plain, value))
    if isinstance(value, set):
        return tuple(sorted(value))
    return value


def unit_caller(unit: int, call: Any) -> Callable[[World], Any]:
    return lambda world: unit_answer(world, unit, call)


def unit_answer(world: World, number: int, call: Any) -> Any:
    """What is accepted is synced at once; that answers wait for it is shown elsewhere."""
    unit = world.units[number] = _copied_unit(world.units[number])
    effects = list(unit.step(units.Asked(0, call)))
    while isinstance(persist := effects[-1], units.Persist):
        effects.pop()
        if isinstance(persist.change, units.RowChange):
            unit._held[persist.change.row] = persist.change.entry  # type: ignore[index]
        effects += unit.step(units.Synced(persist.number))
    effect = effects[-1]
    if isinstance(effect, units.ReplyHeld):
        return RowHolds(unit._held[effect.row])  # type: ignore[index]
    if isinstance(effect, units.ReplyRange):
        held, asked = unit._held, range(effect.call.start, effect.up_to, effect.call.step)
        rows = tuple((row, held[row]) for row in asked if row not in unit.state.trims)  # type: ignore[index]
        return RowsHold(effect.up_to, rows)
    assert isinstance(effect, units.Reply)
    return effect.answer


def sequencer_answer(world: World, number: int, call: Any) -> Any:
    each = world.sequencers[number] = copied_sequencer(world.sequencers[number])
    effects = each.step(sequencing.Asked(0, call, 0))
    if isinstance(effects[0], sequencing.Keep):  # to be kept until it begins is as good as to ask then
        effects = each.step(sequencing.Overdue(effects[0].number))
    for effect in effects[1:]:
        assert isinstance(effect, sequencing.AskGrant)
        outcome = raft_answer(world, Grant(effect.epoch, effect.bound))
        if isinstance(outcome, Known):
            each.step(sequencing.Granted(effect.epoch, outcome.bound))
    assert isinstance(effects[0], sequencing.Reply)
    return effects[0].answer


def raft_answer(world: World, call: Any) -> Any:
    if isinstance(call, GetProjection):
        return world.raft.known
    if isinstance(call, GetSessions):
        return world.raft.sessions
    if isinstance(call, GetSession):
        return world.raft.session(call.producer)
    world.raft = _copied_raft(world.raft)
    return world.raft.apply(world.raft.index + 1, call)
