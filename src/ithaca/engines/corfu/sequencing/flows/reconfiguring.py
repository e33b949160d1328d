"""Reconfiguration: seal the epoch, have Raft decide on the next one, install it (§2.5 of the paper).

Anybody may do it, and several at once: Raft takes the first that names the epoch which holds. Every chain needs one
unit that was sealed, and only those go on; so a batch on a whole chain is on one that goes on, and nothing of the
epoch can be completed any more.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ithaca.engines.corfu.sequencing.calls import (
    GetProjection,
    GetTrims,
    Install,
    RowsTrimmed,
    Seal,
    TakeTrims,
    TrimsAre,
    UnitSealed,
)
from ithaca.engines.corfu.sequencing.commands import Joined, NextEpoch, Void
from ithaca.engines.corfu.sequencing.flows.flow import AskRaft, AskUnit, AskUnits, NoAnswer, Pause, Steps
from ithaca.engines.corfu.sequencing.flows.patience import Patience
from ithaca.engines.corfu.sequencing.limits import GRANT_ROWS, RETRY_MS, UNIT_GONE_MS
from ithaca.engines.corfu.sequencing.projection import Chain, Projection
from ithaca.engines.corfu.sequencing.rows import row_of

if TYPE_CHECKING:
    from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge


@dataclass(frozen=True, slots=True)
class _Change:
    """What is to be different in the next epoch; see `reconfigured`."""

    sequencer: int | None
    joined: tuple[Joined, ...]
    moved: tuple[tuple[int, int], ...]
    added: Chain
    grant: int | None


def reconfigured(
    knowledge: "Knowledge",
    projection: Projection,
    *,
    without: frozenset[int] = frozenset(),
    sequencer: int | None = None,
    joined: tuple[Joined, ...] = (),
    moved: tuple[tuple[int, int], ...] = (),
    added: Chain = (),
    grant: int | None = None,
) -> Steps[str]:
    """End this epoch, without some of its units; says why that cannot be, or nothing if there is a later one.

    `sequencer` is the next one, 0 for none; `moved` are units whose places in the active range others take, `added` are
    spares that become one more set.
    """
    sealed = yield from _sealed(projection, without)
    reason = ""
    if all(not sealed.keys().isdisjoint(chain) for chain in projection.chains()):
        change = _Change(sequencer, joined, moved, added, grant)
        proposed = yield from _proposed(knowledge, projection, sealed, change)
        if proposed is None:
            yield Pause(RETRY_MS)
            return "a unit of the next epoch does not answer"
        decided = yield AskRaft(proposed)
        if isinstance(decided, Void):
            reason, decided = decided.reason, decided.known
    else:
        decided = yield AskRaft(GetProjection())  # perhaps somebody else was quicker
        reason = "there is a chain of units none of which answers"
    if isinstance(decided, NoAnswer):
        yield Pause(RETRY_MS)
        decided = yield AskRaft(GetProjection())
    knowledge.learn(decided)
    if knowledge.epoch == projection.epoch:
        yield Pause(RETRY_MS)
        return reason
    if not knowledge.projection.sequencer:  # else that does it first of all
        yield from installed(knowledge.projection)
    return ""


def _sealed(projection: Projection, without: frozenset[int]) -> Steps[dict[int, UnitSealed]]:
    """Seal the epoch at all units but some: what those answer that do.

    Whoever does not is removed for good. So units where nobody listens are asked again, for as long as it may take to
    start them: with all servers of a cluster started at once, some are there before others.
    """
    left = {
        unit.number: Seal(projection.epoch, unit.identity) for unit in projection.units if unit.number not in without
    }
    sealed: dict[int, UnitSealed] = {}
    patience = Patience(UNIT_GONE_MS, UNIT_GONE_MS)
    while True:
        answers = dict(zip(left, (yield AskUnits(tuple(left.items()))), strict=True))
        for unit, answer in answers.items():
            if isinstance(answer, UnitSealed) and answer.epoch == projection.epoch:
                sealed[unit] = answer
        refused = [unit for unit, answer in answers.items() if isinstance(answer, NoAnswer) and answer.is_refused]
        pause = patience.pause(NoAnswer(is_refused=True))
        if not refused or patience.is_over:
            return sealed
        left = {unit: left[unit] for unit in refused}
        yield pause


def _proposed(
    knowledge: "Knowledge", projection: Projection, sealed: dict[int, UnitSealed], change: _Change
) -> Steps[NextEpoch | None]:
    """The next epoch, of the units that were sealed; None if one of them is gone meanwhile."""
    units, sizes = frozenset(sealed), knowledge.known.sizes
    sets = sets_of(projection, units, sizes, change.moved, change.added)
    if change.added and units.issuperset(change.added):
        sets, sizes = (*sets, change.added), (*sizes, len(change.added))
    joined = yield from _copied_trims(projection, units, change.joined)
    highest = max(answer.highest for answer in sealed.values())
    finished = yield from _finished(knowledge, projection, units, highest, sets)
    if finished is None:
        return None
    return NextEpoch(
        projection.epoch,
        tuple(sealed),
        highest,
        max(answer.time_us for answer in sealed.values()),
        sets,
        projection.sequencer if change.sequencer is None else change.sequencer,
        GRANT_ROWS if change.grant is None else change.grant,
        joined,
        sizes,
        finished,
    )


def _copied_trims(
    projection: Projection, sealed: frozenset[int], joined: tuple[Joined, ...]
) -> Steps[tuple[Joined, ...]]:
    """Those that have everything of their ranges, with what was trimmed there: nothing is trimmed under a seal."""
    whole: list[Joined] = []
    for each in joined:
        sources = [unit for unit in projection.chain(each.start + each.set) if unit in sealed]
        if each.unit not in sealed or not sources:
            continue
        trims = yield AskUnit(sources[-1], GetTrims())
        if isinstance(trims, TrimsAre):
            call = _told(projection, trims, trims.ranges, projection.settled)
            if isinstance((yield AskUnit(each.unit, call)), RowsTrimmed):
                whole.append(each)
    return tuple(whole)


def _told(projection: Projection, found: TrimsAre, ranges: tuple[tuple[int, int], ...], stop: int) -> TakeTrims:
    """What a unit knows, for another one; of sessions, their batches in rows below `stop`. In others it may be the head
    of its chain, and the only one that has a batch: it is not certain that such a row will ever hold it."""
    placed = ((producer, tuple(batch for batch in batches if batch.row < stop)) for producer, batches in found.placed)
    kept = tuple((producer, batches) for producer, batches in placed if batches)
    return TakeTrims(projection.epoch, found.below, ranges, found.first, kept, found.is_forgetful)


def _finished(
    knowledge: "Knowledge", projection: Projection, sealed: frozenset[int], highest: int, sets: tuple[Chain, ...]
) -> Steps[int | None]:
    """The row before which ranges need no units any more: they were trimmed as a whole.

    What units remember of sessions goes to those of the first set, where chains end with this epoch and no other one
    knows as much. None if that cannot be.
    """
    finished = row_of(knowledge.known.trim)
    for chain in _ending(projection, finished, highest, sets):
        source = [unit for unit in chain if unit in sealed][-1]
        found = yield AskUnit(source, GetTrims())
        if not isinstance(found, TrimsAre):
            return None
        call = _told(projection, found, (), max(projection.settled, finished))
        for unit in sets[0]:
            if not isinstance((yield AskUnit(unit, call)), RowsTrimmed):
                return None
    return finished


def _ending(projection: Projection, finished: int, highest: int, sets: tuple[Chain, ...]) -> tuple[Chain, ...]:
    """The chains of ranges that the next epoch does not have, unless all units of another chain know what they know.

    Ranges go that end at `finished` or before, and the active one if nothing was written in it.
    """
    over: set[Chain] = set()
    kept: set[Chain] = {*sets}
    for each in projection.ranges:
        stop = projection.stop_of(each)
        is_over = stop <= finished if stop is not None else highest < max(each.start, finished)
        (over if is_over else kept).update(each.sets)
    return tuple(sorted(chain for chain in over if not any(set(other) <= set(chain) for other in kept)))


def installed(projection: Projection) -> Steps[None]:
    """Tell every unit of the epoch. Who is not reached learns it from the first call under it."""
    yield AskUnits(tuple((unit.number, Install(projection.epoch, unit.identity)) for unit in projection.units))


def sets_of(
    projection: Projection,
    sealed: frozenset[int],
    sizes: tuple[int, ...],
    moved: tuple[tuple[int, int], ...] = (),
    added: Chain = (),
) -> tuple[Chain, ...]:
    """The sets of the next active range: those of this one, with spares where they are shorter than these sizes."""
    used = {unit for chain in projection.chains() for unit in chain} | {*added, *(new for _, new in moved)}
    spares = sorted(sealed - used)
    sets: list[Chain] = []
    for chain, size in zip(projection.ranges[-1].sets, sizes, strict=True):
        places = [next((new for old, new in moved if old == unit and new in sealed), unit) for unit in chain]
        left = [unit for unit in places if unit in sealed]
        while len(left) < size and spares:
            left.append(spares.pop(0))
        sets.append(tuple(left))
    return tuple(sets)
