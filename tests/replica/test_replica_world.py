"""Crashes, lost links, changing leaders, trims and moving sessions around real replica cores, each run from a seed.

What seeds have found stands as a scenario in `test_replica_core`, which outlives a change of the world.
"""

from collections import Counter

import pytest
from tests.replica.replica_world import World
from tests.replica.simulated_replica import Violation

from ithaca.engines.scalog.ordering.state import ShardSummary
from ithaca.engines.scalog.replica import sessions
from ithaca.engines.scalog.replica.appends import Appends
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.replica.events import Acknowledge, Appended, Fetch, Follow, Refuse, Request, Synced, Truncate
from ithaca.engines.scalog.replica.lanes import LaneCopy
from ithaca.engines.scalog.replica.readable import Readable
from ithaca.engines.scalog.replica.reporting import Reporting, RunsSync
from ithaca.engines.scalog.replica.sessions import HomeSessions, KnownBatch
from ithaca.engines.scalog.replica.settling import Settling
from ithaca.model.errors import WrongLane
from ithaca.sessions.carried import Carried
from ithaca.wire.batch import Batch

SAMPLE_SEEDS = 40
CAMPAIGN_SEEDS = 2000
PLANTED_SEEDS_MAX = 200

HAPPENS = [
    "crashes",
    "lanes lost",
    "leaders",
    "OrderedCut",
    "LaneClosed",
    "SessionMoved",
    "TrimmedLog",
    "Truncate",
    "Fetch",
    "FetchRuns",
    "DropLane",
    "Rejoin",
    "AcknowledgeAt",
    "refused WrongLane",
    "refused StorageFull",
    "refused SequenceGap",
    "refused SessionFenced",
]


def counts_of(seeds: range) -> Counter[str]:
    """Run the seeds; any violation raises. Adds up what happened."""
    total: Counter[str] = Counter()
    for seed in seeds:
        total.update(World(seed).run().counts)
    return total


@pytest.mark.parametrize("start", range(0, SAMPLE_SEEDS, 20))
def test_a_sample_of_seeds_holds_every_property(start: int) -> None:
    """Invariants 1 to 7, after every step and at the end."""
    total = counts_of(range(start, start + 20))
    assert total["acknowledged"] > 500
    assert [name for name in HAPPENS if not total[name]] == []


@pytest.mark.campaign
@pytest.mark.parametrize("start", range(0, CAMPAIGN_SEEDS, 100))
def test_the_campaign_holds_every_property(start: int) -> None:
    assert counts_of(range(start, start + 100))["acknowledged"] > 2500


def test_a_seed_reproduces_its_run() -> None:
    first, second = World(5).run(), World(5).run()
    assert (first.truth, first.counts) == (second.truth, second.counts)
    assert first.truth != World(6).run().truth


# Planted bugs: each must be seen by the seeds.

_synced, _close_and_drop = ReplicaCore._synced, ReplicaCore._close_and_drop
_pursue, _wanted, _append, _repeat = Settling.reconcile, Settling._wanted, Appends.append, Appends._repeat
_send, _known_to = Reporting._send, RunsSync.known_to


def acknowledges_what_is_synced(self: ReplicaCore, event: Synced) -> None:
    """As published code does: at a position that the order has not given."""
    _synced(self, event)
    copy = self._lanes.get(event.lane)
    if copy is not None and event.lane == self.own_lane and copy.durable > copy.ordered:
        for pending in list(self._appends._pending):
            if pending.end_lsn <= copy.durable:
                self._effects += [Acknowledge(request, self.tail) for request in pending.requests]


def accepts_at_once(self: Appends, event: Appended) -> None:
    """Does not wait until the lane is there."""
    copy = self._copy
    if copy is None or copy.is_present:
        _append(self, event)
        return
    copy.is_present, copy.is_busy = True, False
    _append(self, event)
    copy.is_present, copy.is_busy = False, True


def closes_lanes_of_peers(self: ReplicaCore, summary: ShardSummary) -> None:
    """Takes every lane but the own for closed when it joins."""
    _close_and_drop(self, summary)
    for lane, copy in self._lanes.items():
        if lane != self.own_lane:
            self._close(copy)


def keeps_what_is_longer(self: Settling, copy: LaneCopy) -> None:
    _pursue(self, copy)
    if self._effects and isinstance(self._effects[-1], Truncate):
        self._effects.pop()
        copy.is_busy = False
        copy.received = copy.durable = copy.ordered


def reports_what_is_written(self: Reporting, now_us: int, *, is_complete: bool = True) -> None:
    synced = [(copy, copy.durable) for copy in self._told]
    for copy, _ in synced:
        copy.durable = copy.received
    _send(self, now_us, is_complete=is_complete)
    for copy, durable in synced:
        copy.durable = durable


def reads_up_to_the_tail(self: Readable) -> None:
    self.limit = self.tail


def waits_for_what_was_skipped(self: LaneCopy, lsn: int, first: int) -> int:
    for run in self.missing:
        if run.lsn <= lsn < run.lsn + run.count:
            return max(lsn, min(run.lsn + run.count, run.lsn + first - run.position))
    return lsn


def is_complete_alone(self: LaneCopy) -> bool:
    return self.is_closed and self.is_ready and self.durable == self.received == self.due


def only_follows(self: Settling, copy: LaneCopy) -> Follow | Fetch | None:
    return _wanted(self, copy) if copy.is_open else None


def accepts_repeats(self: HomeSessions, batch: Batch) -> KnownBatch | None:
    self._current(batch.producer_id, batch.producer_epoch)
    return None


def carries_nothing(_data: bytes) -> list[Carried]:
    return []


def calls_noted_runs_durable(self: RunsSync, cut: int) -> None:
    _known_to(self, cut)
    self.cut = cut


def refuses_what_is_pending(self: Appends, copy: LaneCopy, request: Request, placed: KnownBatch) -> None:
    """Says that a batch is not there while it waits for its cut."""
    if placed.lsn in self._pending_at:
        self._effects.append(Refuse(request, WrongLane("no such batch")))
    else:
        _repeat(self, copy, request, placed)


Patch = tuple[object, str, object]
PLANTED: dict[str, tuple[str, Patch]] = {
    "lanes are written before they are made": ("1", (Appends, "append", accepts_at_once)),
    "what is synced is acknowledged": ("2", (ReplicaCore, "_synced", acknowledges_what_is_synced)),
    "what is written is reported": ("3", (Reporting, "_send", reports_what_is_written)),
    "lanes are cut before they are closed": ("4 5", (ReplicaCore, "_close_and_drop", closes_lanes_of_peers)),
    "a longer copy of a closed lane is kept": ("4", (Settling, "reconcile", keeps_what_is_longer)),
    "a shorter copy of a closed lane is kept": ("4", (Settling, "_wanted", only_follows)),
    "repeats are accepted": ("5", (HomeSessions, "place_of", accepts_repeats)),
    "sessions forget what they carried": ("5", (sessions, "decode_carried", carries_nothing)),
    "what is pending is refused": ("5", (Appends, "_repeat", refuses_what_is_pending)),
    "everything ordered is readable": ("6", (Readable, "look_again", reads_up_to_the_tail)),
    "noted runs are called durable": ("6", (RunsSync, "known_to", calls_noted_runs_durable)),
    "what was skipped is waited for": ("4 6", (LaneCopy, "_behind_trimmed", waits_for_what_was_skipped)),
    "positions of settled lanes are still to come": ("4", (LaneCopy, "is_settled", property(is_complete_alone))),
    "a repeat is never due": ("4 5", (Reporting, "tick", lambda _self, _now_us: None)),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, (owner, name, value) = PLANTED[bug]
    monkeypatch.setattr(owner, name, value)
    assert first_violation().split(": ")[0] in numbers.split()


def first_violation() -> str:
    for seed in range(PLANTED_SEEDS_MAX):
        try:
            World(seed).run()
        except Violation as violation:
            return str(violation)
        except AssertionError as failure:  # a core that finds that it was wrong about what is settled
            return f"4: {failure}"
    return f"{PLANTED_SEEDS_MAX} seeds found nothing"
