"""The embedded log without a face: what its synchronous and its asynchronous handle share."""

import copy
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Lock
from typing import Literal

from ithaca.client.consuming.known import Known
from ithaca.consumers.groups import GroupBook
from ithaca.consumers.table import ConsumerChanges
from ithaca.embedded import directory
from ithaca.embedded.expiry import LaneExpiry
from ithaca.embedded.follower import Follower
from ithaca.embedded.retention import LaneRetention
from ithaca.embedded.scan import Scan
from ithaca.model.arguments import instance
from ithaca.model.config.log import Settings
from ithaca.model.consumers import ConsumerCommand, ConsumerOutcome, ConsumerRefused, checked_commands
from ithaca.model.errors import (
    DeadlineExceeded,
    ForkedHandle,
    InvalidInput,
    LogClosed,
    NotWritten,
    ReadOnly,
)
from ithaca.model.groups import GroupBeat, GroupMember, GroupTold
from ithaca.model.limits import INFLIGHT_BYTES_MAX, POINT_READ_BYTES
from ithaca.model.positions import lsn_of, position_of
from ithaca.model.records import Buffer, KeyFilter, Keys, Receipt, Record, Retention, Start, Values
from ithaca.runtime import forks
from ithaca.runtime.checks import (
    check_filter,
    check_position,
    check_range,
    check_seq,
    check_session_name,
    check_start,
    time_us_of,
)
from ithaca.runtime.group_commit import EVERY_SESSION, GroupCommit, Ticket
from ithaca.runtime.machine import monotonic_s, wall_us
from ithaca.sessions.continuing import conflict
from ithaca.storage.disk import OsDisk
from ithaca.storage.lane import Lane
from ithaca.storage.reader import Cursor, LaneReader
from ithaca.storage.sessions import SessionOpened
from ithaca.storage.state import ConsumersChanged, LaneState, TrimmedTo, control_entry
from ithaca.wire.batch import Batch
from ithaca.wire.build import build, checked_record
from ithaca.wire.repeats import same_records


class Engine:
    """An open directory. Thread-safe."""

    def __init__(self, path: str, mode: Literal["a", "r"], settings: Settings, retention: Retention | None) -> None:
        self.path = os.path.abspath(path)
        self._settings = settings
        self._retention = retention
        self._closed = False
        self._forked = False
        self._listeners: list[Callable[[], object]] = []
        self._listeners_lock = Lock()
        self._groups = GroupBook(float("-inf"))  # members live in this process: who had parts before is gone
        self._groups_lock = Lock()
        self._retaining: LaneRetention | None = None
        self._expiring: LaneExpiry | None = None
        disk = OsDisk()
        self._lock = directory.prepare(disk, self.path) if mode == "a" else None
        try:
            self.meta = directory.load_meta(disk, self.path)
            self.reader, self._lane, self._commits = self._open(disk)
        except OSError as error:
            self._release_lock()
            raise directory.translated(error, self.path) from error
        except BaseException:
            self._release_lock()
            raise
        forks.watch(self)
        if (expiry := self._expiry()) is not None:
            commits = self.commits()
            commits.wait(commits.add(expiry))

    def _open(self, disk: OsDisk) -> tuple[LaneReader, Lane | None, GroupCommit | None]:
        if self._lock is None:
            return Follower(disk, self.path), None, None
        lane = Lane(
            disk,
            directory.lane_directory(self.path),
            directory.LANE,
            durability=self._settings.durability,
            segment_bytes=self._settings.segment_bytes,
        )
        commits = GroupCommit(
            lane,
            compression=self._settings.compression,
            clock_us=wall_us,
            inflight_bytes_max=INFLIGHT_BYTES_MAX,
            after_commit=self._after_commit,
        )
        if self._retention is not None:
            self._retaining = LaneRetention(self._retention, lane, self.path)
        if self._settings.consumer_idle_s is not None:
            self._expiring = LaneExpiry(self._settings.consumer_idle_s, lane, self.path)
        return lane, lane, commits

    def __str__(self) -> str:
        """What `repr` says of a handle: nothing is asked of the disk for it."""
        state = "forked" if self._forked else "closed" if self._closed else "open"
        first, tail = position_of(self.reader.trim_lsn), position_of(self.reader.length)
        return (
            f"{self.path}, {'for appending' if self.is_writer else 'for reading'}, first {first}, tail {tail}, {state}"
        )

    # Life

    def check(self) -> None:
        """Raise unless the handle can be used."""
        self.check_not_forked()
        if self._closed:
            raise self._closed_error()

    def check_not_forked(self) -> None:
        if self._forked:
            raise ForkedHandle(f"the handle of {self.path} was inherited through a fork: open the log again there")

    def commits(self) -> GroupCommit:
        """Where appends go; raises on a handle for reading."""
        if self._closed or self._forked:
            self.check()
        if self._commits is None:
            raise ReadOnly(f'{self.path} was opened with mode="r": open it with mode="a" to write')
        return self._commits

    def forked(self) -> None:
        self._forked = True
        if self._lock is not None:
            self._lock.close()  # the parent's descriptor keeps the lock; ours must not outlive it

    def close(self) -> None:
        """Commit what is queued, leave the directory clean, let the next writer in. Idempotent."""
        if self._closed or self._forked:
            return
        self._closed = True
        try:
            if self._commits is not None:
                self._commits.close(self._closed_error())
        except (KeyboardInterrupt, DeadlineExceeded):
            self._closed = False  # the lane may still be writing, so the lock stays; closing again goes on from here
            raise
        except BaseException:
            self._let_go()
            raise
        self._let_go()

    def _let_go(self) -> None:
        self._release_lock()
        self.reader.release()
        self.tell_listeners()

    def _closed_error(self) -> LogClosed:
        return LogClosed(f"the handle of {self.path} was closed")

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    # Appending

    def record_ticket(self, value: Buffer, key: Buffer | None) -> Ticket:
        """A single record; it is copied if the caller could change it."""
        value, key = checked_record(value, key)
        return Ticket(value=value, key=key)

    def batch_ticket(self, values: Values, keys: Keys | None) -> Ticket:
        return Ticket(batch=self._build(values, keys, (0, 0, 0)))

    def session_ticket(
        self,
        name: str,
        producer_id: int,
        epoch: int,
        seq: int,
        values: Values,
        keys: Keys | None,
    ) -> Ticket:
        """A batch of a session: appended unless an equal one was."""
        check_seq(seq)
        batch = self._build(values, keys, (producer_id, epoch, seq))

        def decide(state: LaneState) -> list[Batch] | int:
            known = state.sessions.place_of(producer_id, epoch, seq, batch.count)
            if known is None:
                return [batch]
            if known >= self.reader.trim_lsn and not same_records(self._stored(known), batch):
                raise conflict(name, seq, batch.count)
            return known

        return Ticket(batch=batch, decide=decide, touches=producer_id)

    def _build(self, values: Values, keys: Keys | None, producer: tuple[int, int, int]) -> Batch:
        return build(values, keys, timestamp_us=wall_us(), compress=self._settings.compression, producer=producer)

    def receipt(self, ticket: Ticket) -> Receipt:
        """What a ticket that is done came to."""
        assert ticket.done
        if ticket.error is not None:
            error = copy.copy(ticket.error)
            error.__cause__ = ticket.error.__cause__
            raise error
        return Receipt(position_of(ticket.lsn), ticket.count, directory.LANE.shard, self._settings.durability)

    # Sessions

    def opening_ticket(self, name: str) -> tuple[Ticket, list[SessionOpened]]:
        """The ticket that opens a session, and where to find what was opened once it is done."""
        check_session_name(name)
        opened: list[SessionOpened] = []

        def decide(state: LaneState) -> list[Batch]:
            entry, expired = state.sessions.opening(name)
            opened[:] = [entry]
            return [control_entry(change) for change in (expired, entry) if change is not None]

        return Ticket(decide=decide, touches=EVERY_SESSION), opened

    def next_seq(self, producer_id: int, epoch: int) -> int:
        self.commits()
        assert self._lane is not None
        return self._lane.state.sessions.next_seq(producer_id, epoch)

    # Consumers

    def consumers_ticket(self, commands: Sequence[ConsumerCommand]) -> tuple[Ticket, list[ConsumerOutcome]]:
        """The ticket that changes named consumers, and where to find what came of it once it is done."""
        checked = checked_commands(commands)
        outcomes: list[ConsumerOutcome] = []

        def decide(state: LaneState) -> list[Batch]:
            changes = ConsumerChanges(checked, wall_us())
            outcomes[:] = state.consumers.copy().apply(changes)
            if all(isinstance(outcome, ConsumerRefused) for outcome in outcomes):
                return []
            return [control_entry(ConsumersChanged(changes))]

        return Ticket(decide=decide, touches=EVERY_SESSION), outcomes

    def _expiry(self) -> Ticket | None:
        """The ticket with which idle consumers go; None if it is not time to look, or none is."""
        idle = self._expiring.due() if self._expiring is not None and not self._closed else []
        return self.consumers_ticket(idle)[0] if idle else None

    def known_consumers(self) -> Known:
        """Those that there are, by what was synced."""
        self.check()
        state = self.reader.state_now() if isinstance(self.reader, Follower) else None
        if state is None:
            assert self._lane is not None
            state = self._lane.state
        return Known(wall_us(), tuple(state.consumers.after("")))

    def beat_group(self, beat: GroupBeat) -> GroupTold:
        """A member of a group, which lives in this process, was heard of."""
        instance(beat, GroupBeat, "beat", "a GroupBeat")
        self.commits()
        assert self._lane is not None
        with self._groups_lock:
            return self._groups.beat(self._lane.state.consumers, beat, monotonic_s())

    def group_members(self, name: str) -> tuple[GroupMember, ...]:
        """Those of this process."""
        self.commits()
        assert self._lane is not None
        with self._groups_lock:
            return self._groups.members(self._lane.state.consumers, name, monotonic_s())

    # Reading

    def first(self) -> int:
        self.check()
        self.reader.refresh()
        return position_of(self.reader.trim_lsn)

    def tail(self) -> int:
        self.check()
        self.reader.refresh()
        return position_of(self.reader.length)

    def in_memory(self, position: int) -> bool:
        """Whether reading the position would not touch the disk."""
        lsn = lsn_of(position)
        return lsn >= self.reader.length or bool(self.reader.cache.get(lsn, 0))

    def read(self, position: int) -> Record:
        """The record at a position that was checked; `NotWritten` when it is not there yet."""
        self.check()
        lsn = lsn_of(position)
        if lsn >= self.reader.length:
            self.reader.refresh()
        if lsn >= self.reader.length:
            tail = position_of(self.reader.length)
            raise NotWritten(f"position {position} is not written yet; the tail is {tail}", tail=tail)
        batch = self._stored(lsn)
        row = lsn - batch.base_lsn
        return batch.record(position_of(batch.base_lsn), self.reader.lane.shard, row)

    def _stored(self, lsn: int) -> Batch:
        """The batch that has the record at this LSN, which is there."""
        return Cursor(self.reader, lsn).read(lsn + 1, bytes_max=POINT_READ_BYTES)[0]

    def is_beyond(self, lsn: int) -> bool:
        """Whether there is a record at this LSN by now."""
        self.check()
        self.reader.refresh()
        return self.reader.length > lsn

    def check_shard(self, shard: int | None) -> None:
        if shard is not None and shard != directory.LANE.shard:
            raise InvalidInput(f"there is no shard {shard}: an embedded log has shard {directory.LANE.shard} only")

    def scan(self, start: Start, stop: Start | None, where: KeyFilter | None) -> Scan:
        """The records of `[start, stop)`, by default up to the tail now."""
        self.check()
        check_range(start, stop, where)
        self.reader.refresh()
        length = self.reader.length
        stop_lsn = length if stop is None else min(self._resolve(stop), length)
        start_lsn = self._resolve(start)
        if start_lsn < stop_lsn:
            self.reader.check_not_trimmed(start_lsn)
        return Scan(self.reader, start_lsn, stop_lsn, where)

    def scan_from(self, start: Start, where: KeyFilter | None) -> Scan:
        """The records from `start` on, without end."""
        self.check()
        check_start(start)
        check_filter(where)
        self.reader.refresh()
        start_lsn = self._resolve(start)
        self.reader.check_not_trimmed(start_lsn)
        return Scan(self.reader, start_lsn, None, where)

    def _resolve(self, start: Start) -> int:
        """The LSN that is meant, whether or not it is there."""
        if isinstance(start, datetime):
            return self.reader.seek_time(time_us_of(start))
        if start == "earliest":
            return self.reader.trim_lsn
        if start == "latest":
            return self.reader.length
        assert not isinstance(start, str)
        return lsn_of(start)

    # News

    @property
    def is_writer(self) -> bool:
        """Whether this handle commits itself, and so can tell listeners; else it must look for news."""
        return self._lane is not None

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Have a function called after each commit, from the committing thread."""
        with self._listeners_lock:
            self._listeners = [*self._listeners, listener]

    def remove_listener(self, listener: Callable[[], object]) -> None:
        with self._listeners_lock:
            self._listeners = [known for known in self._listeners if known != listener]

    def tell_listeners(self) -> None:
        for listener in self._listeners:
            listener()

    # Trim and retention

    def trim_ticket(self, before: int) -> Ticket:
        """The ticket that moves the trim point."""
        self.commits()
        check_position(before, "before")
        return self._trimming(before)

    def _trimming(self, before: int) -> Ticket:
        def decide(state: LaneState) -> list[Batch]:
            if lsn_of(before) > state.length:
                tail = position_of(state.length)
                raise InvalidInput(f"cannot trim before {before}: the tail is {tail}, and only what is written can go")
            return [] if lsn_of(before) <= state.trim_lsn else [control_entry(TrimmedTo(lsn_of(before)))]

        return Ticket(decide=decide, touches=EVERY_SESSION)

    def _after_commit(self) -> None:
        """Runs in the committing thread, under the commit lock."""
        assert self._lane is not None
        assert self._commits is not None
        if len(self._lane.first_lsns) > 1:
            self._lane.drop_trimmed()
        if self._listeners:
            self.tell_listeners()
        if self._retaining is not None and not self._closed:
            before = self._retaining.due()
            if before is not None:
                self._commits.add_from_commit(self._trimming(position_of(before)))
        if (expiry := self._expiry()) is not None:
            self._commits.add_from_commit(expiry)
