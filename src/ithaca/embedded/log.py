"""The synchronous face of the embedded log."""

import time
from collections.abc import Callable, Sequence

from ithaca.client.consuming.blocking.book import ConsumerBook
from ithaca.client.consuming.known import Known
from ithaca.embedded.engine import Engine
from ithaca.embedded.records import EmbeddedRecords, EmbeddedSubscription
from ithaca.model import interface
from ithaca.model.arguments import function
from ithaca.model.consumers import ConsumerCommand, ConsumerOutcome, check_consumer_name
from ithaca.model.errors import NotWritten
from ithaca.model.groups import GroupBeat, GroupMember, GroupTold
from ithaca.model.records import Buffer, KeyFilter, Keys, Receipt, Record, Start, Values
from ithaca.model.units import Duration, optional_seconds, seconds
from ithaca.runtime.checks import check_position, flush_too_late, too_late
from ithaca.runtime.futures import FirstFailure
from ithaca.runtime.group_commit import GroupCommit, Ticket


class EmbeddedPending(interface.Pending):
    """A ticket, and where it is redeemed."""

    __slots__ = ("_commits", "_engine", "_ticket")

    def __init__(self, engine: Engine, commits: GroupCommit, ticket: Ticket) -> None:
        self._engine = engine
        self._commits = commits
        self._ticket = ticket

    def result(self, timeout: Duration | None = None) -> Receipt:
        ticket = self._ticket
        if not ticket.done:
            self._engine.check_not_forked()
            if timeout is None:
                self._commits.wait(ticket)
            else:
                timeout_s = seconds(timeout)
                if not self._commits.wait_in_background(ticket, timeout_s):
                    raise too_late(timeout_s)
        return self._engine.receipt(ticket)

    def done(self) -> bool:
        return self._ticket.done

    def add_done_callback(self, callback: Callable[[interface.Pending], object]) -> None:
        function(callback, "callback")
        self._commits.when_done(self._ticket, lambda _: callback(self))


class EmbeddedSession(interface.Session):
    """A session under the epoch at which this handle opened it."""

    def __init__(self, log: "EmbeddedLog", engine: Engine, name: str, producer_id: int, epoch: int) -> None:
        self.name = name
        self._log = log
        self._engine = engine
        self._producer_id = producer_id
        self._epoch = epoch

    def __repr__(self) -> str:
        return f"<ithaca.Session {self.name!r} of {self._engine.path}, epoch {self._epoch}>"

    @property
    def next_seq(self) -> int:
        return self._engine.next_seq(self._producer_id, self._epoch)

    def append_many(
        self, values: Values, *, keys: Keys | None = None, seq: int | None = None, timeout: Duration | None = None
    ) -> Receipt:
        if seq is None:
            seq = self.next_seq
        ticket = self._engine.session_ticket(self.name, self._producer_id, self._epoch, seq, values, keys)
        return self._log.commit(ticket, timeout)


class EmbeddedLog(ConsumerBook):
    """`ithaca.open`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._failure = FirstFailure()

    def __repr__(self) -> str:
        return f"<ithaca.Log {self._engine}>"

    def append(self, value: Buffer, *, key: Buffer | None = None, timeout: Duration | None = None) -> Receipt:
        return self.commit(self._engine.record_ticket(value, key), timeout)

    def append_many(self, values: Values, *, keys: Keys | None = None, timeout: Duration | None = None) -> Receipt:
        return self.commit(self._engine.batch_ticket(values, keys), timeout)

    def commit(self, ticket: Ticket, timeout: Duration | None = None) -> Receipt:
        """Commit in this thread; with a time-out in the disk thread, since a sync cannot be abandoned."""
        commits = self._engine.commits()
        if timeout is not None:
            timeout_s = seconds(timeout)
            return EmbeddedPending(self._engine, commits, commits.add(ticket)).result(timeout_s)
        commits.wait(commits.add(ticket))
        return self._engine.receipt(ticket)

    def submit(self, value: Buffer, *, key: Buffer | None = None) -> EmbeddedPending:
        return self._submit(self._engine.record_ticket(value, key))

    def submit_many(self, values: Values, *, keys: Keys | None = None) -> EmbeddedPending:
        self._engine.commits()
        return self._submit(self._engine.batch_ticket(values, keys))

    def _submit(self, ticket: Ticket) -> EmbeddedPending:
        commits = self._engine.commits()
        if commits.crowded:
            commits.relieve()
        ticket.on_failure = self._failure.note
        return EmbeddedPending(self._engine, commits, commits.add_in_background(ticket))

    def flush(self, *, timeout: Duration | None = None) -> None:
        timeout_s = optional_seconds(timeout)
        commits = self._engine.commits()
        if timeout_s is None:
            commits.wait_all()
        else:
            last = commits.newest()
            if last is not None and not commits.wait_in_background(last, timeout_s):
                raise flush_too_late(timeout_s)
        self._failure.raise_once()

    def read(self, position: int, *, shard: int | None = None, wait: Duration = 0) -> Record:
        engine = self._engine
        check_position(position)
        engine.check_shard(shard)
        deadline_s = time.monotonic() + seconds(wait, "wait")
        while True:
            try:
                return engine.read(position)
            except NotWritten as error:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise
                with EmbeddedSubscription(engine, engine.scan_from(error.tail, None)) as newer:
                    newer.poll(left_s, max_records=1)

    def read_range(self, start: Start, stop: Start | None = None, *, where: KeyFilter | None = None) -> EmbeddedRecords:
        return EmbeddedRecords(self._engine, self._engine.scan(start, stop, where))

    def subscribe(self, start: Start = "latest", *, where: KeyFilter | None = None) -> EmbeddedSubscription:
        return EmbeddedSubscription(self._engine, self._engine.scan_from(start, where))

    def first(self) -> int:
        return self._engine.first()

    def tail(self) -> int:
        return self._engine.tail()

    def trim(self, before: int) -> None:
        ticket = self._engine.trim_ticket(before)
        self.commit(ticket)

    def session(self, name: str) -> EmbeddedSession:
        self._engine.commits()
        ticket, opened = self._engine.opening_ticket(name)
        self.commit(ticket)
        return EmbeddedSession(self, self._engine, name, opened[0].producer_id, opened[0].epoch)

    @property
    def has_dense_positions(self) -> bool:
        return True

    def change_consumers(
        self, commands: Sequence[ConsumerCommand], *, timeout: Duration | None = None
    ) -> tuple[ConsumerOutcome, ...]:
        ticket, outcomes = self._engine.consumers_ticket(commands)
        self.commit(ticket, timeout)
        return tuple(outcomes)

    def known_consumers(self) -> Known:
        return self._engine.known_consumers()

    def beat_group(self, beat: GroupBeat, *, timeout: Duration | None = None) -> GroupTold:
        optional_seconds(timeout)
        return self._engine.beat_group(beat)

    def group_members(self, name: str) -> tuple[GroupMember, ...]:
        check_consumer_name(name)
        return self._engine.group_members(name)

    def close(self) -> None:
        self._engine.close()
        self._failure.raise_once()
