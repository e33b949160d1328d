"""Runs a `RaftCore` in an event loop: events in, effects performed as `ithaca.raft` says.

Everything happens in the loop, by plain calls, but for a disk that is slow: `disk` writes and syncs the
persists, in their order, in the loop or in its thread, and reports each back. What stands behind a persist
waits for that report; what stands before it does not, and meanwhile the loop goes on. Events that come up
while effects are performed wait their turn, so that a state machine may propose from within `apply`.

A full disk is tried again until there is space, and nothing behind it is performed meanwhile. After any other
failure, of the disk, of the state machine or of the core itself, the driver has stopped for good: it performs
nothing more, fails whoever waits, and tells its owner.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from ithaca.model.errors import (
    ProtocolError,
    StorageFull,
    Unavailable,
)
from ithaca.model.view import Address
from ithaca.raft.core import RaftCore
from ithaca.raft.events import (
    Apply,
    Change,
    ChangeMembership,
    Effect,
    Event,
    FetchSnapshot,
    Persist,
    Persisted,
    Propose,
    Proposed,
    ReadIndex,
    ReadReady,
    Receive,
    RefusedRequest,
    Restore,
    Role,
    RoleChanged,
    Send,
    Settings,
    SnapshotTaken,
    TakeSnapshot,
    Tick,
    TransferLeadership,
    Transferring,
)
from ithaca.raft.leader import LeaderTerm
from ithaca.raft.limits import SNAPSHOT_TURN_BYTES
from ithaca.raft.messages import AnyMessage, Configuration, DurableState, EntryKind, ServerId, TimeoutNow
from ithaca.runtime.machine import monotonic_ns, own_random
from ithaca.runtime.raft.disk import Job, RaftDisk
from ithaca.runtime.raft.ports import Owner, RaftStore, StateMachine, Waiter

_log = logging.getLogger("ithaca.raft")


class RaftDriver:
    """One server of a Raft group. All methods belong to its event loop."""

    def __init__(
        self,
        server: ServerId,
        settings: Settings,
        store: RaftStore,
        durable: DurableState,
        machine: StateMachine,
        owner: Owner,
        *,
        random: Random | None = None,
    ) -> None:
        self._server = server
        self._core = RaftCore(server, settings, random or own_random(), durable, now_ms=_now_ms())
        self._configuration = self._core.node.membership.current
        self._machine = machine
        self._owner = owner
        self.applied_index, self._applied_term = durable.snapshot.index, durable.snapshot.term
        self.storage_full: StorageFull | None = None
        """Why nothing can be persisted at the moment."""
        self._events: deque[Event] = deque()
        self._is_running = False
        self._has_ended = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = self._last_request = 0
        self._requests: dict[int, Waiter] = {}
        self._proposed: dict[int, tuple[int, Waiter]] = {}  # by index, with the term
        self._reads: deque[tuple[int, Waiter]] = deque()  # confirmed, by the index that must be applied first
        self._persists: deque[Persist] = deque()
        self._behind: dict[int, list[Effect]] = {}
        self._unapplied: deque[Apply] = deque()
        self._disk = RaftDisk(store, self._persisted, self._full, self._fail)
        if durable.snapshot.index:
            machine.restore(durable.snapshot.index, durable.snapshot.data)

    # What the owner calls

    def start(self) -> None:
        """Begin to take part. A group of one elects itself at once, since there is nobody to wait for."""
        self._disk.start()
        if self._core.node.membership.current.voters == (self._server,):
            self.step(Receive(TimeoutNow(self._server, self._core.term)))
        else:
            self._plan_tick()

    async def stop(self) -> None:
        """End: the persists that were handed out are finished, nothing behind them is performed. Idempotent."""
        self._end(f"server {self._server} is stopping")
        await self._disk.stop()

    def step(self, event: Event) -> None:
        """Take one event, and whatever it leads to."""
        if self._has_ended:
            return
        self._events.append(event)
        if not self._is_running:
            self._run()

    def receive(self, message: AnyMessage) -> None:
        """Take what another server says; `ProtocolError` for what it would not say if it followed the protocol."""
        wrong = self._core.objection(message)
        if wrong is not None:
            raise ProtocolError(f"server {message.sender} is not believed: {wrong}")
        self.step(Receive(message))

    def submit(self, payload: bytes, waiter: Waiter) -> None:
        """Propose an entry; `waiter.done` gets what applying it returned, from within the apply itself."""
        if self._has_ended:
            waiter.failed(Unavailable(f"server {self._server} has stopped"))
            return
        self.step(Propose(self._request(waiter), (payload,)))

    def submit_read(self, waiter: Waiter) -> None:
        """Ask for a read index; `waiter.done` gets it once it is applied, so that reads are linearizable."""
        if self._has_ended:
            waiter.failed(Unavailable(f"server {self._server} has stopped"))
            return
        self.step(ReadIndex(self._request(waiter)))

    def submit_change(self, change: Change, server: ServerId, address: Address | None, waiter: Waiter) -> None:
        """Change the group, as its leader; `waiter.done` is told once that is agreed."""
        if self._has_ended:
            waiter.failed(Unavailable(f"server {self._server} has stopped"))
            return
        self.step(ChangeMembership(self._request(waiter), change, server, address))

    def submit_transfer(self, waiter: Waiter) -> None:
        """Hand over to another voter; `waiter.done` is told once that is under way."""
        leadership = self._core.leadership
        successor = None if leadership is None else leadership.successor
        if self._has_ended or successor is None:
            waiter.failed(Unavailable(f"server {self._server} cannot hand over: it hears no other voter"))
            return
        if leadership is not None and leadership.is_handing_over:  # who asks again must not hold up proposals for ever
            waiter.failed(Unavailable(f"server {self._server} hands over already: ask again"))
            return
        self.step(TransferLeadership(self._request(waiter), successor))

    def submit_job(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Have the disk's thread do something for the store, behind all that was persisted so far.

        `done` is called in the loop, unless this server has stopped by then. What fails, but for want of space, stops
        the server for good.
        """
        if not self._has_ended:
            self._disk.submit(Job(work, lambda: None if self._has_ended else done()))

    @property
    def last_index(self) -> int:
        """Of the last entry in the log, committed or not."""
        return self._core.node.log.last_index

    def has_entry(self, index: int, term: int) -> bool:
        """Whether the log in memory has this very entry."""
        return self._core.node.log.term_at(index) == term

    @property
    def role(self) -> Role:
        """A server that has ended leads nobody."""
        return Role.FOLLOWER if self._has_ended else self._core.role

    @property
    def is_current(self) -> bool:
        """Whether a leader is known, and all is applied that was agreed on before its term."""
        node, is_applied = self._core.node, self.applied_index >= self._core.node.commit_index
        return is_applied and node.leader is not None and self._applied_term == node.term

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    @property
    def leadership(self) -> LeaderTerm | None:
        """What this server has under way as a leader."""
        return self._core.leadership if self.is_leader else None

    @property
    def leader(self) -> ServerId | None:
        """The leader as far as this server knows."""
        return None if self._has_ended else self._core.leader

    @property
    def term(self) -> int:
        return self._core.term

    @property
    def commit_index(self) -> int:
        return self._core.commit_index

    @property
    def configuration(self) -> Configuration:
        """The newest, which may not be agreed yet."""
        return self._configuration

    @property
    def agreed_configuration(self) -> Configuration:
        return self._core.node.membership.at(self._core.commit_index)

    # Events in, effects out

    def _request(self, waiter: Waiter) -> int:
        self._last_request += 1
        self._requests[self._last_request] = waiter
        return self._last_request

    def _run(self) -> None:
        self._is_running = True
        core, events = self._core, self._events
        try:
            while events and not self._has_ended:
                now_ms = _now_ms()
                if now_ms > core.node.now_ms:
                    self._perform(core.step(Tick(now_ms)))
                event = events.popleft()
                if type(event) is Persisted:
                    self._perform(self._behind.pop(event.sequence))
                effects = core.step(event)
                if core.node.membership.current is not self._configuration:
                    self._configuration = core.node.membership.current
                    self._owner.members_changed()
                self._perform(effects)
        except Exception as error:
            self._fail(error)
        finally:
            self._is_running = False
        self._plan_tick()

    def _perform(self, effects: list[Effect]) -> None:
        for index, effect in enumerate(effects):
            match effect:
                case Send():
                    self._owner.send(effect.to, effect.message)
                case Persist():
                    self._persist(effect, effects[index + 1 :])
                    return
                case Apply():
                    self._take_in(effect)
                case Proposed():
                    self._proposed[effect.index] = effect.term, self._requests.pop(effect.request)
                case ReadReady():
                    self._catch_up()
                    self._read_ready(effect.index, self._requests.pop(effect.request))
                case RoleChanged():
                    self._catch_up()
                    self._role_changed(effect)
                case RefusedRequest():
                    _tell(self._requests.pop(effect.request).failed, self._owner.error_of(effect))
                case TakeSnapshot():
                    self._catch_up()
                    self._encode_snapshot(self.applied_index, self._machine.snapshot(), [])
                case Restore():
                    self._catch_up()
                    self._machine.restore(effect.snapshot.index, effect.snapshot.data)
                    self._has_applied(effect.snapshot.index, effect.snapshot.term)
                case FetchSnapshot():
                    self._owner.fetch(effect.snapshot, effect.leader)
                case Transferring():
                    _tell(self._requests.pop(effect.request).done, None)

    def _encode_snapshot(self, index: int, rest: Iterator[bytes], pieces: list[bytes]) -> None:
        """Make pieces of a snapshot for a while, and go on in the next turn of the loop."""
        if self._has_ended:
            return
        encoded_bytes = 0
        try:
            for piece in rest:
                pieces.append(piece)
                encoded_bytes += len(piece)
                if encoded_bytes >= SNAPSHOT_TURN_BYTES:
                    asyncio.get_running_loop().call_soon(self._encode_snapshot, index, rest, pieces)
                    return
        except Exception as error:
            self._fail(error)
            return
        self.step(SnapshotTaken(index, b"".join(pieces)))

    def _take_in(self, effect: Apply) -> None:
        """Apply at once where somebody waits for it, else in the next turn: a follower answers its leader first."""
        self._unapplied.append(effect)
        if self._core.role is Role.LEADER or self._proposed or self._reads:
            self._catch_up()
        elif len(self._unapplied) == 1:
            asyncio.get_running_loop().call_soon(self._catch_up_later)

    def _catch_up_later(self) -> None:
        try:
            if not self._has_ended:
                self._catch_up()
        except Exception as error:
            self._fail(error)

    def _catch_up(self) -> None:
        while self._unapplied:
            self._apply(self._unapplied.popleft())

    def _apply(self, effect: Apply) -> None:
        for entry in effect.entries:
            payload = entry.kind is EntryKind.PAYLOAD
            result = self._machine.apply(entry.index, entry.term, entry.data) if payload else None
            if entry.index in self._proposed:
                term, waiter = self._proposed.pop(entry.index)
                if term == entry.term:
                    _tell(waiter.done, result)
                else:
                    _tell(waiter.failed, Unavailable(f"another leader's entry took place {entry.index}: try again"))
        self._has_applied(effect.entries[-1].index, effect.entries[-1].term)

    def _has_applied(self, index: int, term: int) -> None:
        self.applied_index, self._applied_term = index, term
        while self._reads and self._reads[0][0] <= index:
            _tell(self._reads.popleft()[1].done, index)
        self._owner.applied()

    def _read_ready(self, index: int, waiter: Waiter) -> None:
        if index <= self.applied_index:
            _tell(waiter.done, index)
        else:
            self._reads.append((index, waiter))

    def _role_changed(self, change: RoleChanged) -> None:
        _log.info("server %d is %s in term %d, led by %s", self._server, change.role.value, change.term, change.leader)
        self._owner.role_changed(change)
        if change.role is not Role.LEADER:
            lost, self._proposed = self._proposed, {}
            for _, waiter in lost.values():
                _tell(
                    waiter.failed, _unknown(f"server {self._server} lost its leadership before the entry was applied")
                )

    # Time

    def _plan_tick(self) -> None:
        """Have a timer that fires at the deadline, or earlier: a deadline that moved away costs nothing."""
        if self._has_ended:
            return
        deadline_ms = self._core.deadline_ms
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_s = max(1, deadline_ms - _now_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now_ms = _now_ms()
        if now_ms >= self._core.deadline_ms:
            self.step(Tick(now_ms))
        else:
            self._plan_tick()

    # The disk

    def _persist(self, effect: Persist, behind: list[Effect]) -> None:
        self._behind[effect.sequence] = behind
        self._persists.append(effect)
        if not effect.is_barrier:
            self._disk.write(effect)
        elif len(self._persists) == 1:
            self._finish_persist()

    def _persisted(self, seconds: float) -> None:
        """The oldest persist that writes is synced, and so are those around it that write nothing.

        Those before it: this may be called from within a step to which the one before has led.
        """
        if self._has_ended:
            return
        self.storage_full = None
        self._owner.persisted(seconds)
        while self._persists[0].is_barrier:
            self._finish_persist()
        self._finish_persist()
        while self._persists and self._persists[0].is_barrier:
            self._finish_persist()

    def _finish_persist(self) -> None:
        self.step(Persisted(self._persists.popleft().sequence))

    def _full(self, error: StorageFull) -> None:
        if self.storage_full is None and not self._has_ended:
            _log.error("server %d cannot go on until there is space: %s", self._server, error)
            self.storage_full = error

    # The end

    def _fail(self, error: Exception) -> None:
        if self._has_ended:
            return
        _log.critical("server %d stops for good", self._server, exc_info=error)
        self._end(f"server {self._server} has failed: {error}")
        self._owner.failed(error)

    def _end(self, why: str) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self._events.clear()
        if self._timer is not None:
            self._timer.cancel()
        for waiter in [*self._requests.values(), *(waiter for _, waiter in self._reads)]:
            _tell(waiter.failed, Unavailable(why))
        for _, waiter in self._proposed.values():
            _tell(waiter.failed, _unknown(why))
        self._requests.clear()
        self._proposed.clear()
        self._reads.clear()


def _now_ms() -> int:
    return monotonic_ns() // 1_000_000


def _unknown(message: str) -> Unavailable:
    error = Unavailable(message)
    error.outcome_unknown = True
    return error


def _tell(callback: Callable[[Any], None], what: object) -> None:
    """Whoever waits is told; what goes wrong there is not this server's end."""
    try:
        callback(what)
    except Exception:
        _log.exception("telling the outcome of a request failed")
