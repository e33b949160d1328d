"""One term of leading: batches become ranges, ranges are proposed, and whoever waits is answered when they are applied.

Nothing is decided here: `replog.placing` says what is taken, Raft what is agreed on.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from ithaca.consumers.table import ConsumerChanges
from ithaca.engines.raft.messages import Acks
from ithaca.engines.raft.name import NAME
from ithaca.engines.raft.replog.entries import ChangeConsumers, Control, Found, encode_entry
from ithaca.engines.raft.replog.placing import Placing
from ithaca.engines.raft.replog.sessions import Sessions
from ithaca.engines.raft.server.machine import LogMachine
from ithaca.engines.raft.storage.shared_log import SEED, SharedLog
from ithaca.model.consumers import ConsumerOutcome
from ithaca.model.errors import IthacaError, Overloaded, Unavailable
from ithaca.model.limits import APPEND_REPEATS_MAX, LANE_PENDING_BYTES_MAX
from ithaca.model.positions import position_of
from ithaca.model.view import ClusterConfiguration
from ithaca.protocol.failures import failure_of
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import new_uuid
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.runtime.raft.ports import Waiter
from ithaca.wire.batch import Batch

_log = logging.getLogger("ithaca.raft")

Asked = tuple[Connection, int]
"""A request: where it came from, and its correlation."""


class RangeLeaderService:
    """From an election to its end."""

    def __init__(self, driver: RaftDriver, machine: LogMachine, store: SharedLog, ready: Callable[[], None]) -> None:
        """`ready` is called when requests can be taken."""
        self._driver = driver
        self._machine = machine
        self._store = store
        self._ready = ready
        self._loop = asyncio.get_running_loop()
        self._placing: Placing | None = None
        self._is_founding = False
        self._waiting: dict[int, list[Asked]] = {}
        """By the LSN of the batch that each waits for."""
        self._turn_planned = False
        self._ended: IthacaError | None = None

    @property
    def is_ready(self) -> bool:
        """Whether an entry of this term was applied, and the log is founded: from then on requests are taken."""
        return self._placing is not None and self._ended is None

    @property
    def sessions(self) -> Sessions | None:
        """As they are behind everything that was proposed; None while no requests are taken."""
        return None if self._placing is None or self._ended is not None else self._placing.sessions

    # What clients ask

    def append(self, connection: Connection, correlation: int, batch: Batch) -> None:
        """Take a batch, or raise why not; it is acknowledged when it is agreed on."""
        placing = self._placing
        assert placing is not None
        self._check_room(placing, batch)
        if placing.is_full(batch):
            self.flush()
            self._check_room(placing, batch)
        placed = placing.take(batch)
        asked = self._waiting.setdefault(placed.base_lsn, [])
        if len(asked) >= APPEND_REPEATS_MAX:
            raise Overloaded(f"{APPEND_REPEATS_MAX} requests wait for this batch already")
        asked.append((connection, correlation))
        if placed.end_lsn <= self._machine.state.length:
            self.answer()
        elif not self._turn_planned:
            self._turn_planned = True
            self._loop.call_soon(self._turn)

    def propose(self, entry: Control, waiter: Waiter) -> None:
        """Have a control entry agreed on, behind everything that was taken."""
        placing = self._placing
        if placing is None:
            waiter.failed(Unavailable("this server has just been elected: try again"))
            return
        self.flush()
        if self._ended is not None:
            waiter.failed(self._ended)
        elif self._submit(encode_entry(entry), waiter):
            placing.proposed(entry)

    def change_consumers(
        self,
        changes: ConsumerChanges,
        done: Callable[[tuple[ConsumerOutcome, ...]], None],
        failed: Callable[[IthacaError], None],
    ) -> None:
        """Have changes of consumers agreed on."""
        self.propose(ChangeConsumers(changes), Waiter(done, failed))

    def flush(self) -> None:
        """Propose what was taken, as one range."""
        placing = self._placing
        made = None if placing is None else placing.range()
        if placing is None or made is None or self._ended is not None:
            return
        of, batches = made
        refusals: list[IthacaError] = []
        index, term = self._driver.last_index + 1, self._driver.term
        self._store.staging.put(index, term, batches)
        if self._submit(encode_entry(of), Waiter(lambda _: None, refusals.append)):
            placing.proposed(of)
            return
        placing.refused()
        self._store.staging.written(index, term)
        for batch in batches:
            self._fail(self._waiting.pop(batch.base_lsn, ()), refusals[0])

    def _submit(self, data: bytes, waiter: Waiter) -> bool:
        """Whether the entry is in the log now; else the waiter was told why not."""
        index, term = self._driver.last_index + 1, self._driver.term
        self._driver.submit(data, waiter)
        return self._driver.has_entry(index, term) or self._driver.applied_index >= index

    def _turn(self) -> None:
        self._turn_planned = False
        self.flush()

    def _check_room(self, placing: Placing, batch: Batch) -> None:
        if self._ended is not None:
            raise self._ended
        full, leadership = self._driver.storage_full, self._driver.leadership
        if full is not None:
            raise full
        pending = placing.taken_bytes + (0 if leadership is None else leadership.uncommitted_bytes)
        if pending and pending + batch.total_bytes > LANE_PENDING_BYTES_MAX:
            raise Overloaded(
                f"{pending} bytes wait to be agreed on, and {LANE_PENDING_BYTES_MAX} is the most: try again"
            )

    # What Raft tells

    def applied(self) -> None:
        """More of the log is agreed on."""
        leadership = self._driver.leadership
        if self._placing is None and leadership is not None and self._ended is None:
            if self._driver.applied_index >= leadership.first_index:
                self._begin()
            return
        self.answer()

    def _begin(self) -> None:
        """Everything in the log that others began is applied, and what follows is this server's own."""
        if self._machine.state.configuration is None:
            if not self._is_founding:
                self._is_founding = True
                found = encode_entry(Found(ClusterConfiguration(new_uuid(), NAME)))
                self._loop.call_soon(self._driver.submit, found, Waiter(lambda _: None, _not_founded))
            return
        self._placing = Placing(self._machine.state, SEED)
        _log.info("takes appends from position %d on", position_of(self._placing.length))
        self._loop.call_soon(self._ready)  # whoever waited proposes at once, which must not happen from within Raft

    def answer(self) -> None:
        """Acknowledge everything that is agreed on, once per connection."""
        length = self._machine.state.length
        acks: dict[Connection, list[tuple[int, int]]] = {}
        for lsn in [lsn for lsn in self._waiting if lsn < length]:
            for connection, correlation in self._waiting.pop(lsn):
                acks.setdefault(connection, []).append((correlation, position_of(lsn)))
        for connection, items in acks.items():
            connection.send(Acks(tuple(items)))
            if connection.passage is not None:
                for correlation, _ in items:
                    connection.passage.settled(correlation)

    def end(self, error: IthacaError) -> None:
        """Another server leads, or this one stops: what waits may be agreed on all the same."""
        if self._ended is None:
            self._ended = error
            waiting, self._waiting = self._waiting, {}
            for asked in waiting.values():
                self._fail(asked, error)

    def _fail(self, asked: Iterable[Asked], error: IthacaError) -> None:
        for connection, correlation in asked:
            connection.send(failure_of(error), correlation=correlation, answer=True)


def _not_founded(error: IthacaError) -> None:
    _log.info("the log was not founded here: %s", error)
