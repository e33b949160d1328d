"""How a follower that is far behind, or new, gets what the leader's compaction point refers to: it copies the lane.

Everything below the point is agreed on, so what was copied stays true whoever leads next, and whoever knows that much
of the order can be asked. It is written behind the last range, and belongs to nobody until the point itself is
installed: entries that come instead, or a crash, discard it.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from ithaca.engines.raft.messages import CopyLane, LaneCopy
from ithaca.engines.raft.replog.state import length_in
from ithaca.engines.raft.storage.shared_log import SEED, SharedLog
from ithaca.model.errors import Corrupt, IthacaError, ProtocolError, Unavailable
from ithaca.model.limits import CALL_TIMEOUT_S, DELIVER_BYTES_MAX
from ithaca.model.records import Buffer
from ithaca.model.view import Address
from ithaca.raft.events import SnapshotFetched
from ithaca.raft.leader import LeaderTerm
from ithaca.raft.limits import COPY_PAUSE_S
from ithaca.raft.messages import ServerId, Snapshot
from ithaca.raft.pacing import Pace
from ithaca.runtime.connection import OnlyAnswers
from ithaca.runtime.dialling import Said, dial
from ithaca.runtime.machine import monotonic_ns, rng
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.storage.reader import Cursor
from ithaca.wire.batch import DATA, NOOPS, Batch, parse
from ithaca.wire.build import noops

_log = logging.getLogger("ithaca.raft")
_NOOPS_MAX = (1 << 32) - 1


class LaneCopier:
    """Fetches what snapshots refer to, one after the other."""

    def __init__(
        self,
        store: SharedLog,
        driver: RaftDriver,
        hello: Callable[[], Said],
        address_of: Callable[[ServerId], Address | None],
    ) -> None:
        self._store = store
        self._driver = driver
        self._hello = hello
        self._address_of = address_of
        self._task: asyncio.Task[None] | None = None
        self._damaged: set[Address] = set()
        """Servers that could not read what they were asked for."""

    def fetch(self, snapshot: Snapshot, leader: ServerId) -> None:
        """Begin, unless a copy is under way: Raft says it again while something is missing."""
        if self._task is None:
            self._task = asyncio.create_task(self._fetch(snapshot, leader))
            self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, IthacaError):
                await self._task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("the copy from the leader has ended, and will begin again: %s", error)

    async def _fetch(self, snapshot: Snapshot, leader: ServerId) -> None:
        stop = length_in(snapshot.data)
        if self._store.lane.length < stop:
            source = self._source(snapshot, leader)
            connection = await dial(source, self._hello(), OnlyAnswers())
            try:
                while (lsn := self._store.lane.length) < stop:
                    answer = await connection.request(CopyLane(lsn, stop), timeout=CALL_TIMEOUT_S)
                    if not isinstance(answer.message, LaneCopy):
                        raise ProtocolError(f"a server answered CopyLane with {type(answer.message).__name__}")
                    await self._write(lsn, copied_batches(answer.payload, lsn, stop))
                    if self._store.lane.length == lsn:
                        return  # entries came meanwhile
            except Corrupt:
                self._damaged.add(source)
                raise
            finally:
                connection.close()
        _log.info("what the compaction point at entry %d refers to was copied", snapshot.index)
        self._driver.step(SnapshotFetched(snapshot.index, snapshot.term))

    def _source(self, snapshot: Snapshot, leader: ServerId) -> Address:
        """Where the leader is. A server that is new knows of nobody, but from the point itself; others of those that it
        names have what it refers to as well, if the leader is not known or its disk is damaged.
        """
        named = dict(snapshot.configuration.addresses)
        address = self._address_of(leader) or named.get(leader)
        if address is not None and address not in self._damaged:
            return address
        others = [each for each in sorted(named.values(), key=str) if each not in self._damaged]
        self._damaged.clear()  # of those that were asked in vain, one may do better the next time
        if others:
            return rng().choice(others)
        if address is None:
            raise Unavailable(f"it is not known where server {leader} is")
        return address

    async def _write(self, lsn: int, batches: list[Batch]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told() -> None:
            if not done.done():
                done.set_result(None)

        self._driver.submit_job(lambda: self._store.copy(lsn, batches), told)
        await done


class CopyPace:
    """Holds those back who copy from a leader while others append, as Raft does with those who catch up."""

    def __init__(self, leadership: Callable[[], LeaderTerm | None]) -> None:
        self._leadership = leadership
        self._term: LeaderTerm | None = None
        self._counted_bytes = 0
        self._pace = Pace(_now_ms())

    async def wait(self, size: int) -> None:
        """Until so many bytes may be sent."""
        while True:
            if not self._is_held_back():
                self._pace.sent(size)
                return
            await asyncio.sleep(COPY_PAUSE_S)

    def _is_held_back(self) -> bool:
        term = self._leadership()
        if term is None:
            return False
        if term is not self._term:
            self._term, self._counted_bytes, self._pace = term, term.committed_bytes, Pace(_now_ms())
        committed = term.committed_bytes - self._counted_bytes
        if committed:
            self._counted_bytes += committed
            self._pace.committed(committed, _now_ms())
        return term.is_busy and not self._pace.allows


def _now_ms() -> int:
    return monotonic_ns() // 1_000_000


def copied_batches(payload: Buffer, lsn: int, stop: int) -> list[Batch]:
    """The batches of a copy; `ProtocolError` unless they go on at `lsn`, and not beyond `stop`."""
    batches: list[Batch] = []
    offset = 0
    try:
        while offset < len(payload):
            batch = parse(payload, offset)
            offset += batch.total_bytes
            if batch.kind not in (DATA, NOOPS) or batch.base_lsn != lsn or not batch.belongs_to(SEED):
                raise ProtocolError(f"a copy goes on with a batch of kind {batch.kind} at LSN {batch.base_lsn}")
            lsn = batch.end_lsn
            batches.append(batch)
    except Corrupt as error:
        raise ProtocolError(f"the batches of a copy do not check out: {error}") from error
    if not batches or lsn > stop:
        raise ProtocolError(f"a copy up to LSN {stop} came to {lsn}")
    return batches


def batches_to_copy(store: SharedLog, lsn: int, stop: int) -> list[Batch]:
    """What is there from `lsn` on, which is agreed on, without gaps: no-ops stand for what was trimmed."""
    lane = store.lane
    start = max(lsn, lane.trim_lsn)
    found = Cursor(lane, start).read(stop, bytes_max=DELIVER_BYTES_MAX) if start < stop else []
    gap_end = found[0].base_lsn if found else stop
    filled: list[Batch] = []
    while lsn < gap_end:
        count = min(gap_end - lsn, _NOOPS_MAX)
        filled.append(noops(count, timestamp_us=0).placed(lsn, SEED))
        lsn += count
    return filled + found
