"""Reconfiguration: seal the epoch, have Raft decide on the next one, install it (§2.5 of the paper).

Anybody may do it, and several at once: Raft takes the first that names the epoch which holds. Every chain needs one
unit that was sealed, and only those go on; so a batch on a whole chain is on one that goes on, and nothing of the
epoch can be completed any more.
"""

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
from ithaca.engines.corfu.sequencing.flows.flow import AskRaft, AskUnit, AskUnits, Lost, Pause, Steps
from ithaca.engines.corfu.sequencing.limits import GRANT_ROWS, RETRY_MS
from ithaca.engines.corfu.sequencing.projection import Chain, Projection

if TYPE_CHECKING:
    from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge


def reconfigured(
    knowledge: "Knowledge",
    projection: Projection,
    *,
    without: frozenset[int] = frozenset(),
    sequencer: int | None = None,
    joined: tuple[Joined, ...] = (),
    grant: int | None = None,
) -> Steps[str]:
    """End this epoch, without some of its units; says why that cannot be, or nothing if there is a later one."""
    units = tuple(unit for unit in projection.units if unit.number not in without)
    answers = yield AskUnits(tuple((unit.number, Seal(projection.epoch, unit.identity)) for unit in units))
    sealed = {
        unit.number: answer
        for unit, answer in zip(units, answers, strict=True)
        if isinstance(answer, UnitSealed) and answer.epoch == projection.epoch
    }
    reason = ""
    if all(not sealed.keys().isdisjoint(chain) for chain in projection.chains()):
        joined = yield from _copied_trims(projection, frozenset(sealed), joined)
        decided = yield AskRaft(
            NextEpoch(
                projection.epoch,
                tuple(sealed),
                max(answer.highest for answer in sealed.values()),
                max(answer.time_us for answer in sealed.values()),
                sets_of(projection, frozenset(sealed), knowledge.known.sizes),
                projection.sequencer if sequencer is None else sequencer,
                GRANT_ROWS if grant is None else grant,
                joined,
            )
        )
        if isinstance(decided, Void):
            reason, decided = decided.reason, decided.known
    else:
        decided = yield AskRaft(GetProjection())  # perhaps somebody else was quicker
        reason = "there is a chain of units none of which answers"
    if isinstance(decided, Lost):
        yield Pause(RETRY_MS)
        decided = yield AskRaft(GetProjection())
    knowledge.learn(decided)
    if knowledge.epoch == projection.epoch:
        yield Pause(RETRY_MS)
        return reason
    yield from installed(knowledge.projection)
    return ""


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
            call = TakeTrims(projection.epoch, trims.below, trims.ranges, trims.first, trims.placed, trims.is_forgetful)
            if isinstance((yield AskUnit(each.unit, call)), RowsTrimmed):
                whole.append(each)
    return tuple(whole)


def installed(projection: Projection) -> Steps[None]:
    """Tell every unit of the epoch. Who is not reached learns it from the first call under it."""
    yield AskUnits(tuple((unit.number, Install(projection.epoch, unit.identity)) for unit in projection.units))


def sets_of(projection: Projection, sealed: frozenset[int], sizes: tuple[int, ...]) -> tuple[Chain, ...]:
    """The sets of the next active range: those of this one, with spares where they are shorter than these sizes."""
    active = projection.ranges[-1].sets
    used = {unit for chain in active for unit in chain}
    spares = sorted(sealed - used)
    sets: list[Chain] = []
    for chain, size in zip(active, sizes, strict=True):
        left = [unit for unit in chain if unit in sealed]
        while len(left) < size and spares:
            left.append(spares.pop(0))
        sets.append(tuple(left))
    return tuple(sets)
