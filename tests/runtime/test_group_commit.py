"""Group commit: what waits together is committed together, and one ticket's failure is its own."""

import threading
import time
from collections.abc import Sequence
from random import Random

import pytest
from tests.runtime.commits import batch_of, new_lane, opening, queue_before, session_append, trimming
from tests.storage.lanes import read_rows, shrink_limits

from ithaca.model.errors import Fenced, IthacaError, LogClosed, SequenceGap, SessionFenced, StorageFull
from ithaca.model.records import Buffer
from ithaca.runtime import group_commit
from ithaca.runtime.group_commit import GroupCommit, Ticket
from ithaca.sim.disk import SimDisk
from ithaca.storage.lane import Group, Lane
from ithaca.storage.reader import Cursor
from ithaca.storage.sessions import SessionOpened


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_limits(monkeypatch)


def values_of(lane: Lane) -> list[bytes]:
    return [value for value, _ in read_rows(lane, lane.trim_lsn, lane.length)]


def batches_of(lane: Lane) -> list[int]:
    """How many records each batch of the lane has."""
    cursor, counts = Cursor(lane, 0), []
    while cursor.lsn < lane.length:
        counts += [batch.count for batch in cursor.read(lane.length)]
    return counts


def opened_session(commits: GroupCommit, lane: Lane, name: str) -> SessionOpened:
    commits.wait(commits.add(opening(name)))
    state = next(state for state in lane.state.sessions.snapshot().sessions if state.name == name)
    return SessionOpened(state.producer_id, name, state.epoch)


def test_the_first_who_waits_commits_for_all_and_single_records_share_a_batch() -> None:
    lane = new_lane()
    commits = queue_before(lane)
    tickets = [commits.add(Ticket(value=b"%d" % n, key=b"k" if n % 2 else None)) for n in range(5)]
    commits.wait(tickets[0])
    assert all(ticket.done for ticket in tickets)
    assert [ticket.lsn for ticket in tickets] == list(range(5))
    assert batches_of(lane) == [5]
    assert read_rows(lane, 0, 5) == [(b"%d" % n, b"k" if n % 2 else None) for n in range(5)]


def test_batches_stay_whole_and_everything_keeps_its_order() -> None:
    lane = new_lane()
    commits = queue_before(lane)
    queued = [
        Ticket(value=b"a"),
        Ticket(value=b"b"),
        Ticket(batch=batch_of([b"c", b"d"])),
        Ticket(value=b"e"),
        Ticket(batch=batch_of([b"f"])),
    ]
    for ticket in queued:
        commits.add(ticket)
    commits.wait_all()
    assert [ticket.lsn for ticket in queued] == [0, 1, 2, 4, 5]
    assert batches_of(lane) == [2, 2, 1, 1]
    assert values_of(lane) == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_coalescing_and_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "COALESCE_BYTES_MAX", 300)
    monkeypatch.setattr(group_commit, "GROUP_BYTES_MAX", 1000)
    lane = new_lane()
    commits = queue_before(lane)
    tickets = [commits.add(Ticket(value=bytes(36))) for _ in range(20)]  # 100 bytes each, with the head
    commits.wait(tickets[0])
    assert [ticket.done for ticket in tickets] == [True] * 10 + [False] * 10
    assert batches_of(lane) == [3, 3, 3, 1]
    commits.wait_all()
    large = [commits.add(Ticket(batch=batch_of([bytes(1500)]))) for _ in range(2)]
    commits.wait(large[0])
    assert [ticket.done for ticket in large] == [True, False]
    commits.wait_all()
    assert lane.length == 22


def test_two_batches_of_one_session_do_not_share_a_group_and_both_go_through() -> None:
    lane = new_lane()
    commits = queue_before(lane)
    one, two = opened_session(commits, lane, "one"), opened_session(commits, lane, "two")
    tickets = [
        session_append(one, 1, [b"a", b"b"]),
        session_append(two, 1, [b"c"]),
        session_append(one, 3, [b"d"]),
        session_append(one, 1, [b"a", b"b"]),  # a retry
        Ticket(value=b"e"),
    ]
    for ticket in tickets:
        commits.add(ticket)
    commits.wait(tickets[1])
    assert [ticket.done for ticket in tickets] == [True, True, False, False, False]
    commits.wait_all()
    assert [ticket.lsn for ticket in tickets] == [0, 2, 3, 0, 4]
    assert values_of(lane) == [b"a", b"b", b"c", b"d", b"e"]


def test_a_change_of_all_sessions_sees_the_earlier_ones_applied() -> None:
    lane = new_lane()
    commits = queue_before(lane)
    session = opened_session(commits, lane, "s")
    before, reopening, after = session_append(session, 1, [b"a"]), opening("s"), session_append(session, 2, [b"b"])
    for ticket in (before, reopening, after):
        commits.add(ticket)
    commits.wait_all()
    assert (before.error, reopening.error) == (None, None)
    assert isinstance(after.error, SessionFenced)
    assert values_of(lane) == [b"a"]


def test_a_refused_ticket_does_not_hurt_the_others() -> None:
    lane = new_lane()
    commits = queue_before(lane)
    session = opened_session(commits, lane, "s")
    first, gap, last = Ticket(value=b"a"), session_append(session, 7, [b"x"]), Ticket(value=b"b")
    failures: list[IthacaError] = []
    gap.on_failure = failures.append
    for ticket in (first, gap, last):
        commits.add(ticket)
    commits.wait_all()
    assert (first.error, last.error) == (None, None)
    assert isinstance(gap.error, SequenceGap)
    assert failures == [gap.error]
    assert values_of(lane) == [b"a", b"b"]


def test_a_group_of_refusals_alone_writes_nothing() -> None:
    disk = SimDisk()
    lane = new_lane(disk)
    commits = queue_before(lane)
    session = opened_session(commits, lane, "s")
    operations = disk.operations
    ticket = commits.add(session_append(session, 7, [b"x"]))
    commits.wait(ticket)
    assert isinstance(ticket.error, SequenceGap)
    assert disk.operations == operations


def test_a_full_disk_fails_its_group_and_the_next_works() -> None:
    disk = SimDisk()
    lane = new_lane(disk)
    commits = queue_before(lane)
    session = opened_session(commits, lane, "s")
    commits.wait(commits.add(Ticket(value=b"before")))
    disk.capacity_bytes = 0
    queued = [Ticket(batch=batch_of([bytes(5000)])), session_append(session, 7, [b"x"]), Ticket(value=b"c")]
    for ticket in queued:
        commits.add(ticket)
    commits.wait_all()
    assert [type(ticket.error) for ticket in queued] == [StorageFull, SequenceGap, StorageFull]
    disk.capacity_bytes = None
    retry = commits.add(session_append(session, 1, [b"after"]))
    commits.wait(retry)
    assert (retry.error, retry.lsn) == (None, 1)
    assert values_of(lane) == [b"before", b"after"]


def test_a_failed_sync_fails_everything_from_then_on() -> None:
    disk = SimDisk()
    lane = new_lane(disk)
    commits = queue_before(lane)
    commits.wait(commits.add(Ticket(value=b"before")))
    disk.fail_next_sync()
    failed = [commits.add(Ticket(value=b"x")), commits.add(Ticket(batch=batch_of([b"y"])))]
    commits.wait_all()
    later = commits.add(Ticket(value=b"z"))
    commits.wait(later)
    assert [type(ticket.error) for ticket in (*failed, later)] == [Fenced] * 3
    assert values_of(lane) == [b"before"]


def test_callbacks_come_once_with_the_result_or_at_once(caplog: pytest.LogCaptureFixture) -> None:
    lane = new_lane()
    commits = queue_before(lane)
    told: list[tuple[str, int]] = []
    one, two = Ticket(value=b"a"), Ticket(value=b"b")

    def fail(_: Ticket) -> None:
        raise ValueError("of the callback's own")

    commits.when_done(one, fail)
    commits.when_done(one, lambda ticket: told.append(("one", ticket.lsn)))
    commits.when_done(two, lambda ticket: told.append(("two", ticket.lsn)))
    commits.add(one)
    commits.add(two)
    commits.wait_all()
    assert told == [("one", 0), ("two", 1)]
    assert "a callback of an append failed" in caplog.text
    commits.when_done(one, lambda ticket: told.append(("late", ticket.lsn)))
    assert told[-1] == ("late", 0)
    commits.wait(commits.add(Ticket(value=b"c")))
    assert len(told) == 3


def test_upkeep_that_fails_harms_neither_appends_nor_callbacks(caplog: pytest.LogCaptureFixture) -> None:
    def upkeep() -> None:
        raise OSError("of the upkeep")

    lane = new_lane()
    commits = queue_before(lane, after_commit=upkeep)
    for n in range(3):
        ticket = commits.add_in_background(Ticket(value=b"%d" % n))
        assert commits.wait_in_background(ticket, 60)
        assert (ticket.error, ticket.lsn) == (None, n)
    assert "upkeep" in caplog.text
    commits.close(LogClosed("closed"))


def test_tickets_added_by_the_upkeep_are_committed_next() -> None:
    lane = new_lane()
    added: list[Ticket] = []

    def upkeep() -> None:
        lane.drop_trimmed()
        if not added:
            added.append(trimming(1))
            commits.add_from_commit(added[0])

    commits = queue_before(lane, after_commit=upkeep)
    commits.wait(commits.add(Ticket(batch=batch_of([b"a", b"b"]))))
    assert not added[0].done
    commits.wait_all()
    assert added[0].done
    assert lane.trim_lsn == 1


def test_a_crowded_queue_is_relieved_by_the_producer() -> None:
    lane = new_lane()
    commits = queue_before(lane, inflight_bytes_max=500)
    count = 0
    while not commits.crowded:
        commits.add(Ticket(value=bytes(36)))
        count += 1
    assert count == 6
    commits.relieve()
    assert not commits.crowded
    assert lane.length == 6


class SlowFile:
    """Stands for a sync that takes its time."""

    def __init__(self, lane: Lane) -> None:
        self.syncing, self.go_on = threading.Event(), threading.Event()
        write = lane._writer.write

        def slow_write(offset: int, buffers: Sequence[Buffer], count: int, *, durably: bool) -> None:
            self.syncing.set()
            assert self.go_on.wait(60)
            write(offset, buffers, count, durably=durably)

        lane._writer.write = slow_write  # type: ignore[method-assign]


def test_a_time_out_gives_up_waiting_and_not_the_append() -> None:
    lane = new_lane()
    commits = queue_before(lane)
    slow = SlowFile(lane)
    ticket = commits.add_in_background(Ticket(value=b"a"))
    assert slow.syncing.wait(60)
    assert not commits.wait_in_background(ticket, 0.001)
    slow.go_on.set()
    assert commits.wait_in_background(ticket, 60)
    assert ticket.lsn == 0
    commits.close(LogClosed("closed"))


def test_what_arrives_during_a_sync_goes_into_the_next() -> None:
    lane = new_lane()
    commits = queue_before(lane)
    slow = SlowFile(lane)
    first = commits.add_in_background(Ticket(value=b"first"))
    assert slow.syncing.wait(60)
    meanwhile = [commits.add_in_background(Ticket(value=b"%d" % n)) for n in range(9)]
    slow.go_on.set()
    commits.wait(meanwhile[-1])
    assert first.done
    assert batches_of(lane) == [1, 9]
    commits.close(LogClosed("closed"))


def test_closing_commits_what_is_queued_and_refuses_what_comes() -> None:
    lane = new_lane()
    commits = queue_before(lane)
    slow = SlowFile(lane)
    queued = [commits.add_in_background(Ticket(value=b"first"))]
    assert slow.syncing.wait(60)
    queued += [commits.add(Ticket(value=b"%d" % n)) for n in range(3)]
    closing = threading.Thread(target=commits.close, args=(LogClosed("closed"),))
    closing.start()
    slow.go_on.set()
    closing.join(60)
    assert not closing.is_alive()
    assert [ticket.lsn for ticket in queued] == [0, 1, 2, 3]
    with pytest.raises(LogClosed):
        commits.add(Ticket(value=b"late"))
    dropped = Ticket(value=b"late")
    commits.add_from_commit(dropped)
    assert commits.newest() is None


def test_many_threads_append_close_and_every_receipt_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "GROUP_BYTES_MAX", 3000)
    lane = new_lane(segment_bytes=4000)
    commits = queue_before(lane, inflight_bytes_max=5000)
    results: list[tuple[bytes, Ticket]] = []

    def produce(number: int) -> None:
        random = Random(number)
        for n in range(100000):
            value = b"%d-%d" % (number, n) + bytes(random.randrange(50))
            ticket = Ticket(value=value)
            try:
                if random.random() < 0.5:
                    commits.wait(commits.add(ticket))
                else:
                    if commits.crowded:
                        commits.relieve()
                    commits.add_in_background(ticket)
            except LogClosed:
                return
            results.append((value, ticket))

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    reached = threading.Event()
    commits.when_done(commits.add_in_background(Ticket(value=b"!" * 60)), lambda _: reached.set())
    assert reached.wait(60)
    while len(results) < 300:
        commits.wait(commits.add(Ticket(value=b"?")))
    commits.close(LogClosed("closed"))
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    values = values_of(lane)
    assert all(ticket.done and ticket.error is None for _, ticket in results)
    assert all(values[ticket.lsn] == value for value, ticket in results)
    assert len({ticket.lsn for _, ticket in results}) == len(results) >= 300


def test_threads_that_wait_while_another_syncs_are_woken_and_the_first_of_the_rest_commits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_commit, "TURN_TIMEOUT_S", 60)  # nobody is to help himself
    monkeypatch.setattr(group_commit, "GROUP_BYTES_MAX", 400)
    lane = new_lane()
    commits = queue_before(lane)
    syncing, go_on = threading.Event(), threading.Event()
    commit = lane.commit

    def slow_commit(group: Group) -> None:
        syncing.set()
        assert go_on.wait(60)
        commit(group)

    monkeypatch.setattr(lane, "commit", slow_commit)
    tickets = [Ticket(value=bytes(36)) for _ in range(10)]  # 100 bytes each, with the head: four to a group
    threads = [threading.Thread(target=lambda each=each: commits.wait(commits.add(each))) for each in tickets]
    threads[0].start()
    assert syncing.wait(60)
    for thread in threads[1:]:
        thread.start()
    while not all(ticket.waiter for ticket in tickets[1:]):
        time.sleep(0.001)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert sorted(ticket.lsn for ticket in tickets) == list(range(10))
    assert batches_of(lane) == [1, 4, 4, 1]


def test_a_turn_that_was_lost_is_taken_by_whoever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "TURN_TIMEOUT_S", 0.01)
    lane = new_lane()
    commits = queue_before(lane)
    commits._committing = True  # as an interrupt at the wrong moment could leave it
    ticket = commits.add(Ticket(value=b"a"))
    commits.wait(ticket)
    assert values_of(lane) == [b"a"]
