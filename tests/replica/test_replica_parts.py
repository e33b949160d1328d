"""Prepared parts at a replica: written once, kept as they were sealed, read once they are published."""

import pytest
from tests.replica.driving import SHARD, Driven, held, one, only

from ithaca.engines.scalog.ordering.entries import Finalize, OpenLane
from ithaca.engines.scalog.ordering.prepared.entries import AbortParts, OpenPart, PartName, Publish, SealPart
from ithaca.engines.scalog.ordering.prepared.outcomes import PartOpened
from ithaca.engines.scalog.replica import staging
from ithaca.engines.scalog.replica.events import (
    AnswerStaged,
    CreateLane,
    DiskFull,
    DropLane,
    Effect,
    Fetch,
    Follow,
    NoteRuns,
    OrderLost,
    PartAppended,
    Refuse,
    Rejoin,
    Request,
    SendReport,
    Synced,
    Tick,
    Truncate,
    Truncated,
    Unfollow,
    Write,
)
from ithaca.model.errors import InvalidInput, IthacaError, Overloaded, PartGone, StorageFull, Unavailable, WrongLane
from ithaca.model.limits import LANE_PENDING_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.wire.build import build

TTL_US = 10_000_000


class Staged(Driven):
    """A replica that has joined, and short ways to prepare."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0
        self.joined()

    def open(self, home: LaneId, *, creates: bool = True) -> tuple[PartName, list[Effect]]:
        self.made += 1
        outcomes = self.order.apply(OpenPart(home, self.made.to_bytes(16, "big"), TTL_US))
        assert isinstance(outcomes[0], PartOpened)
        effects = self.tell(outcomes)
        part = outcomes[0].part
        return (part.lane, part.token), effects + self.create(effects) if creates else effects

    def stage(self, part: PartName, lsn: int, count: int = 1, *, token: bytes | None = None) -> list[Effect]:
        self.requests += 1
        batch = build([b"x"] * count, timestamp_us=0)
        return self.step(PartAppended(Request("client", self.requests), part[0], token or part[1], lsn, batch))

    def staged(self, part: PartName, count: int) -> None:
        """Write a part whole, and sync it."""
        self.stage(part, 0, count)
        self.step(Synced(part[0], count))

    def seal(self, part: PartName, length: int) -> list[Effect]:
        return self.apply(SealPart(*part, length, self.order.state.view.version))

    def complete(self, lane: LaneId, base_lsn: int) -> None:
        """A peer sends one record, and it is synced."""
        self.receive(lane, base_lsn)
        self.step(Synced(lane, base_lsn + 1))

    def refusal(self, effects: list[Effect]) -> IthacaError:
        return one(Refuse, effects).error


def lengths(effects: list[Effect]) -> dict[LaneId, int]:
    return dict(one(SendReport, effects).report.lengths)


def test_a_part_is_made_written_and_reported_where_its_home_is() -> None:
    driven = Staged()
    part, effects = driven.open(driven.own)
    assert one(CreateLane, effects).lane == part[0]
    assert not only(Follow, effects)
    first, second = driven.stage(part, 0, 2), driven.stage(part, 2)
    assert [one(Write, each).batch.base_lsn for each in (first, second)] == [0, 2]
    effects = driven.step(Synced(part[0], 2))
    assert one(AnswerStaged, effects) == AnswerStaged(Request("client", 1), 2)
    assert lengths(effects)[part[0]] == 2
    effects = driven.step(Synced(part[0], 3))
    assert one(AnswerStaged, effects).length == 3
    assert lengths(effects)[part[0]] == 3, "no cut is waited for"


def test_a_part_is_followed_by_peers_and_reported_until_it_is_sealed() -> None:
    driven = Staged()
    part, effects = driven.open(driven.peer)
    assert one(Follow, effects).lane == part[0]
    driven.receive(part[0], 0, 4)
    assert lengths(driven.step(Synced(part[0], 4)))[part[0]] == 4
    told = [now_us for now_us in range(0, 5_000_000, 50_000) if driven.step(Tick(now_us))]
    assert len(told) == 4, "it is repeated once a second, lest a report be lost"
    driven.seal(part, 4)
    assert not any(driven.step(Tick(now_us)) for now_us in range(5_000_000, 9_000_000, 50_000))
    assert driven.core.deadline_us is None
    assert isinstance(driven.refusal(driven.stage(part, 4)), WrongLane)


def test_a_retry_is_answered_and_not_written_twice() -> None:
    driven = Staged()
    part, _ = driven.open(driven.own)
    driven.stage(part, 0, 2)
    assert not driven.stage(part, 0, 2)
    answers = only(AnswerStaged, driven.step(Synced(part[0], 2)))
    assert [each.request.correlation for each in answers] == [1, 2]
    assert one(AnswerStaged, driven.stage(part, 0, 2)).length == 2


def test_what_comes_before_the_part_is_made_waits() -> None:
    driven = Staged()
    part, effects = driven.open(driven.own, creates=False)
    assert not driven.stage(part, 0, 2)
    assert not driven.stage(part, 2)
    assert [each.batch.base_lsn for each in only(Write, driven.create(effects))] == [0, 2]
    gone, effects = driven.open(driven.own, creates=False)
    driven.stage(gone, 0)
    assert isinstance(driven.refusal(driven.apply(AbortParts((gone,)))), PartGone)
    assert not only(Write, driven.create(effects))


def test_what_does_not_continue_a_part_is_refused() -> None:
    driven = Staged()
    part, _ = driven.open(driven.own)
    assert isinstance(driven.refusal(driven.stage(part, 1)), Unavailable)
    driven.stage(part, 0, 2)
    assert isinstance(driven.refusal(driven.stage(part, 1, 2)), Unavailable)
    assert isinstance(driven.refusal(driven.stage(part, 2, token=bytes(16))), InvalidInput)
    assert isinstance(driven.refusal(driven.stage((part[0]._replace(incarnation=2**30 + 9), part[1]), 0)), WrongLane)
    driven.step(DiskFull(True))
    assert isinstance(driven.refusal(driven.stage(part, 2)), StorageFull)


def test_what_is_not_synced_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Staged()
    part, _ = driven.open(driven.own)
    monkeypatch.setattr(staging, "LANE_PENDING_BYTES_MAX", 100)
    driven.stage(part, 0)
    assert isinstance(driven.refusal(driven.stage(part, 1)), Overloaded)
    monkeypatch.setattr(staging, "LANE_PENDING_BYTES_MAX", LANE_PENDING_BYTES_MAX)
    monkeypatch.setattr(staging, "APPEND_REPEATS_MAX", 1)
    assert isinstance(driven.refusal(driven.stage(part, 0)), Overloaded)


def test_as_much_as_the_bound_is_taken_before_the_part_is_made_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    one_batch = build([b"x"], timestamp_us=0).total_bytes
    monkeypatch.setattr(staging, "LANE_PENDING_BYTES_MAX", 2 * one_batch)
    driven = Staged()
    part, effects = driven.open(driven.own, creates=False)
    assert driven.stage(part, 0) == driven.stage(part, 1) == []
    assert isinstance(driven.refusal(driven.stage(part, 2)), Overloaded)
    assert len(only(Write, driven.create(effects))) == 2
    driven.step(Synced(part[0], 1))
    assert len(only(Write, driven.stage(part, 2))) == 1, "what is synced leaves room"
    assert isinstance(driven.refusal(driven.stage(part, 3)), Overloaded)


def test_a_sealed_part_is_kept_unread_and_takes_no_more() -> None:
    driven = Staged()
    part, _ = driven.open(driven.own)
    driven.staged(part, 3)
    effects = driven.seal(part, 3)
    assert Unfollow(part[0]) in effects
    assert driven.core.is_settled(part[0])
    assert isinstance(driven.refusal(driven.stage(part, 3)), WrongLane)
    assert driven.core.readable == driven.core.tail == 1
    assert part[0] not in dict(driven.order.state.lanes.ordered_lengths(SHARD))


def test_a_copy_that_is_longer_is_cut_and_one_that_is_shorter_is_fetched() -> None:
    driven = Staged()
    long, _ = driven.open(driven.own)
    driven.staged(long, 3)
    driven.stage(long, 3, 2)
    assert not only(Truncate, driven.seal(long, 3)), "while something is being written nothing is cut"
    assert one(Truncate, driven.step(Synced(long[0], 5))) == Truncate(long[0], 3)
    driven.step(Truncated(long[0]))
    assert driven.core.is_settled(long[0])
    short, _ = driven.open(driven.peer)
    driven.receive(short[0], 0, 2)
    driven.step(Synced(short[0], 2))
    fetch = one(Fetch, driven.seal(short, 5))
    assert (fetch.lane, fetch.stop) == (short[0], 5)
    driven.receive(short[0], 2, 3)
    driven.step(Synced(short[0], 5))
    assert driven.core.is_settled(short[0])


def test_publishing_gives_positions_to_parts_and_makes_them_readable() -> None:
    driven = Staged()
    mine, theirs = driven.open(driven.own)[0], driven.open(driven.peer)[0]
    driven.staged(mine, 3)
    driven.receive(theirs[0], 0, 2)
    driven.step(Synced(theirs[0], 2))
    driven.seal(mine, 3)
    driven.seal(theirs, 2)
    effects = driven.apply(Publish("w", 1, "", (theirs, mine)))
    runs = [(run.lane, run.position, run.count) for each in only(NoteRuns, effects) for run in each.runs]
    assert runs == [(mine[0], 3, 3), (theirs[0], 1, 2)]
    assert driven.core.readable == driven.core.tail == 6
    assert driven.core.is_settled(mine[0])


def test_a_published_record_that_is_missing_here_holds_readers_back() -> None:
    driven = Staged()
    theirs, _ = driven.open(driven.peer)
    driven.receive(theirs[0], 0, 2)
    driven.step(Synced(theirs[0], 2))
    driven.seal(theirs, 3)
    driven.apply(Publish("w", 1, "", (theirs,)))
    assert (driven.core.readable, driven.core.tail) == (3, 4)
    driven.receive(theirs[0], 2)
    driven.step(Synced(theirs[0], 3))
    assert driven.core.readable == 4


def test_an_aborted_part_is_dropped_and_whoever_waits_is_told() -> None:
    driven = Staged()
    part, _ = driven.open(driven.own)
    driven.stage(part, 0)
    effects = driven.apply(AbortParts((part,)))
    assert isinstance(driven.refusal(effects), PartGone)
    assert DropLane(part[0]) in effects
    assert not driven.step(Synced(part[0], 1))


def test_finalizing_the_shard_drops_its_parts() -> None:
    driven = Staged()
    part, _ = driven.open(driven.own)
    driven.staged(part, 1)
    driven.seal(part, 1)
    assert DropLane(part[0]) in driven.apply(Finalize(SHARD))
    assert driven.core.state == "finalized"


def test_after_a_restart_a_sealed_part_is_completed_and_an_unfinished_one_is_dropped() -> None:
    driven = Staged()
    sealed, unfinished, published = (driven.open(driven.own)[0] for _ in range(3))
    for part in (sealed, unfinished, published):
        driven.staged(part, 3)
    driven.seal(sealed, 3)
    driven.seal(published, 3)
    driven.apply(Publish("w", 1, "", (published,)))
    driven.boot = 2
    empty = driven.own
    driven.start({part[0]: held(2) for part in (sealed, unfinished, published)} | {empty: held(0)})
    effects = driven.joined()
    assert only(DropLane, effects) == [DropLane(empty), DropLane(unfinished[0])]
    assert {each.lane: each.stop for each in only(Fetch, effects)} == {sealed[0]: 3, published[0]: 3}
    driven.complete(sealed[0], 2)
    assert driven.core.is_settled(sealed[0])
    assert driven.core.readable == 3
    driven.complete(published[0], 2)
    assert driven.core.readable == 4


def test_what_happened_while_the_link_was_down_is_made_up_for() -> None:
    driven = Staged()
    sealed, gone = driven.open(driven.own)[0], driven.open(driven.own)[0]
    driven.staged(sealed, 2)
    driven.stage(gone, 0)
    driven.step(OrderLost())
    order = driven.order
    order.apply(SealPart(*sealed, 2, order.state.view.version))
    order.apply(AbortParts((gone,)))
    [opened] = order.apply(OpenPart(driven.own, bytes(16), TTL_US))
    assert isinstance(opened, PartOpened)
    effects = driven.joined()
    assert DropLane(gone[0]) in effects
    assert isinstance(driven.refusal(effects), PartGone)
    assert Unfollow(sealed[0]) in effects
    assert driven.core.is_settled(sealed[0])
    assert one(Write, driven.stage((opened.part.lane, opened.part.token), 0))


def test_a_seal_of_a_part_that_is_not_known_is_a_gap_in_the_news() -> None:
    driven = Staged()
    [opened] = driven.order.apply(OpenPart(driven.own, bytes(16), TTL_US))
    assert isinstance(opened, PartOpened)
    assert only(Rejoin, driven.seal((opened.part.lane, opened.part.token), 0))


def test_a_start_of_the_replica_that_writes_a_part_drops_it_at_its_peers() -> None:
    driven = Staged()
    part, _ = driven.open(driven.peer)
    driven.receive(part[0], 0)
    effects = driven.apply(OpenLane(SHARD, 1, 2))
    assert DropLane(part[0]) in effects
