"""Ctrl-C anywhere in a commit: whoever waits next finishes it, and every ticket is done once, in order."""

import pytest
from tests.runtime.commits import batch_of, new_lane, opening, queue_before, session_append, trimming
from tests.runtime.interrupting import Interrupter, InterruptingDisk, LineInterrupter, ReturnInterrupter
from tests.storage.lanes import open_lane, read_rows, session_table, shrink_limits

from ithaca.model.errors import LogClosed
from ithaca.runtime import group_commit
from ithaca.runtime.group_commit import GroupCommit, Ticket
from ithaca.sim.disk import SimDisk
from ithaca.storage import cache, index, lane, segment
from ithaca.storage.lane import Lane
from ithaca.storage.sessions import SessionOpened


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_limits(monkeypatch)


class Scene:
    """A lane that is about to roll, recycle, drop and checkpoint, and a queue that makes it do so."""

    def __init__(self) -> None:
        self.interrupter = Interrupter()
        self.disk = SimDisk()
        self.lane = new_lane(self.disk, through=InterruptingDisk(self.disk, self.interrupter))
        self.commits = queue_before(self.lane, after_commit=self.lane.drop_trimmed)
        self.told: list[Ticket] = []
        self.values: list[bytes] = []
        self._grow()
        self.tickets = self._queue()

    def _grow(self) -> None:
        commits = self.commits
        commits.wait(commits.add(opening("s")))
        for _ in range(3):
            while self.lane._writer.offset < 1900:
                value = b"%d" % len(self.values) * 40
                commits.wait(commits.add(Ticket(value=value)))
                self.values.append(value)
            large = bytes(1200)
            commits.wait(commits.add(Ticket(value=large)))
            self.values.append(large)
        commits.wait(commits.add(trimming(self.lane.first_lsns[2])))
        assert any(name.startswith("recycled-") for name in self.disk.list("/lane"))
        assert len(self.lane.first_lsns) == 2

    def _queue(self) -> list[Ticket]:
        first = len(self.values)
        session = SessionOpened(1, "s", 1)
        added: list[tuple[Ticket, list[bytes]]] = [
            (Ticket(value=b"one"), [b"one"]),
            (Ticket(batch=batch_of([b"two", b"x" * 2000])), [b"two", b"x" * 2000]),
            (session_append(session, 1, [b"three"]), [b"three"]),
            (Ticket(value=b"four"), [b"four"]),
            (session_append(session, 2, [b"five"]), [b"five"]),
            (trimming(first + 1), []),
            (Ticket(value=b"six"), [b"six"]),
            (Ticket(batch=batch_of([b"y" * 900])), [b"y" * 900]),
        ]
        for ticket, values in added:
            self.commits.when_done(ticket, self.told.append)
            self.commits.add(ticket)
            self.values += values
        return [ticket for ticket, _ in added]

    def finish(self) -> None:
        """Another waiter comes, and everything is as it should be."""
        self.commits.wait(self.tickets[-1])
        self.commits.wait(self.commits.add(Ticket(value=b"last")))
        self.values.append(b"last")
        assert all(ticket.done and ticket.error is None for ticket in self.tickets)
        data = [ticket for ticket in self.tickets if ticket.count]
        assert [self.values[ticket.lsn] for ticket in data] == [
            b"one",
            b"two",
            b"three",
            b"four",
            b"five",
            b"six",
            b"y" * 900,
        ]
        self.check(self.lane)

    def check(self, opened: Lane) -> None:
        assert opened.length == len(self.values)
        rows = read_rows(opened, opened.trim_lsn, opened.length)
        assert [value for value, _ in rows] == self.values[opened.trim_lsn :]
        for lsn in range(opened.trim_lsn, opened.length):
            assert read_rows(opened, lsn, lsn + 1) == [(self.values[lsn], None)]

    def reopen(self) -> None:
        table, trim_lsn = session_table(self.lane), self.lane.trim_lsn
        self.disk.kill()
        opened = open_lane(self.disk)
        self.check(opened)
        assert (session_table(opened), opened.trim_lsn) == (table, trim_lsn)


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_at_any_operation_of_the_disk_loses_nothing(after: bool) -> None:
    at = 0
    while True:
        scene = Scene()
        scene.interrupter.arm(at, after=after)
        try:
            scene.commits.wait(scene.tickets[-1])
        except KeyboardInterrupt:
            assert scene.interrupter.fired
        else:
            if not scene.interrupter.fired:
                break
        scene.interrupter.arm(-1, after=False)
        scene.finish()
        assert scene.told == scene.tickets, f"operation {at}: callbacks came twice, or not, or out of order"
        scene.reopen()
        at += 1
    assert at > 20, "the scene was to roll, recycle and drop"


@pytest.mark.parametrize("after", [False, True])
def test_a_waiter_in_the_background_is_told_although_another_was_interrupted(after: bool) -> None:
    at = 0
    while True:
        scene = Scene()
        scene.commits._start_thread()  # it sleeps: nothing was submitted
        scene.interrupter.arm(at, after=after)
        interrupted = False
        try:
            scene.commits.wait(scene.tickets[-1])
        except KeyboardInterrupt:
            interrupted = True
        scene.interrupter.arm(-1, after=False)
        scene.commits.close(LogClosed("closed"))
        assert scene.told == scene.tickets
        if not interrupted:
            break
        at += 1
    assert at > 20


def test_callbacks_that_an_interrupt_left_behind_come_without_another_append() -> None:
    scene = Scene()
    commits: GroupCommit = scene.commits
    interrupts = [KeyboardInterrupt()]

    def upkeep() -> None:
        if interrupts:
            raise interrupts.pop()

    commits._after_commit = upkeep
    commits._start_thread()
    last = scene.tickets[-1]
    with pytest.raises(KeyboardInterrupt):
        commits.wait(last)
    assert commits.wait_in_background(last, 60)
    commits.close(LogClosed("closed"))
    assert scene.told == scene.tickets


def line_interrupt(at: int) -> str:
    """One interrupt before the `at`-th line; returns where it was, empty when there are fewer lines."""
    scene = Scene()
    line = LineInterrupter([group_commit, lane, segment, cache, index], at)
    try:
        with line.tracing():
            scene.commits.wait(scene.tickets[-1])
    except KeyboardInterrupt:
        pass
    try:
        scene.finish()
        scene.reopen()
    except BaseException as error:
        raise AssertionError(f"interrupted at line {at}: {line.fired_at}") from error
    return line.fired_at


def test_an_interrupt_before_some_lines_loses_nothing() -> None:
    fired = [line_interrupt(at) for at in range(1, 1200, 7)]
    assert sum(map(bool, fired)) > 100


@pytest.mark.campaign
def test_an_interrupt_before_any_line_loses_nothing() -> None:
    at = 1
    while line_interrupt(at):
        at += 1
    assert at > 700


def test_an_interrupt_inside_the_threading_module_stops_nothing() -> None:
    """A submit gives the disk thread a wake-up: no interrupt in it may leave a lock locked."""
    at = 0
    while True:
        scene = Scene()
        at += 1
        interrupter = ReturnInterrupter(at)
        try:
            with interrupter.tracing():
                scene.commits.start()
                scene.commits.wait_in_background(scene.tickets[0], 60)
        except (KeyboardInterrupt, RuntimeError):
            pass  # what an interrupt becomes while `Thread.start` waits on a condition
        scene.finish()
        scene.commits.close(LogClosed("closed"))
        assert scene.told == scene.tickets, f"interrupted after {interrupter.fired_at}"
        if not interrupter.fired_at:
            break
    assert at > 3, "a thread was to be started"
