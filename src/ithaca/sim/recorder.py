"""The history of a simulated run, as its clients were told."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ithaca.model.errors import IthacaError
from ithaca.model.parts import Published
from ithaca.model.records import Receipt, Record
from ithaca.proof import payload
from ithaca.proof.history import (
    AnyEvent,
    Append,
    Deliver,
    First,
    Id,
    Mark,
    Outcome,
    Publish,
    Range,
    Read,
    Sub,
    Tail,
    Trim,
)
from ithaca.sim.process import Process


class Recorder:
    """The history of a run, in memory. What a process was doing when it died becomes `info`."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.now_ns = now_ns
        self.events: list[AnyEvent] = []
        self.acknowledged = 0
        """Records."""
        self.last_position = 0
        self.last_record = 0
        """Where positions may be empty, a publication of nothing is behind some at which no record is."""
        self.placed: dict[Id, tuple[int, int]] = {}
        """Records that were acknowledged: their shards and positions."""
        self.trimmed = 0
        """Positions below may be gone."""
        self.unseen: list[Trim] = []
        """Trims that have returned, and of which some replica may not know."""
        self._open: dict[tuple[Process, int], tuple[Append, int, int]] = {}
        """Appends that are under way, with what the clock of their process showed, and how often it had jumped."""
        self._publishing: dict[Process, Publish] = {}
        self.out_sessions: set[int] = set()
        """Of what takers write (`sim.clients.taking`): what comes of it is told of publications, and not of appends."""
        self._sessions = 0
        self._subscriptions = 0
        self._marks: dict[int, int] = {}
        """How far each subscription has said that it has everything."""

    def new_session(self) -> int:
        self._sessions += 1
        return self._sessions

    def new_out_session(self) -> int:
        self.out_sessions.add(number := self.new_session())
        return number

    def subscribed(self, start: int, where: str | None, inv: int, at: int | UnsetType = UNSET) -> int:
        """A subscription has begun that was asked for at `inv`, and if so, from the time `at` on."""
        self._subscriptions += 1
        self.events.append(Sub(self._subscriptions, start, where, inv, self.now_ns(), at))
        return self._subscriptions

    async def append(
        self,
        who: Process,
        session: int,
        seq: int,
        count: int,
        key: bytes | None,
        call: Callable[[], Awaitable[Receipt]],
    ) -> Receipt:
        """Carry out an append, and note what came of it: what is raised says whether its outcome is known."""
        inv = self.now_ns()
        text = None if key is None else key.decode()
        asked = Append((session, seq), count, inv, inv, "info", None, text)
        self._open[who, session << 40 | seq] = asked, who.machine.wall_us(), who.machine.jumps
        try:
            receipt = await call()
        except IthacaError as error:
            self._close(who, asked, "info" if error.outcome_unknown else "fail", None)
            raise
        self._close(who, asked, "ok", receipt)
        self.acknowledged += count
        for row in range(count):
            self.placed[session, seq + row] = (receipt.shard, receipt.position + row)
        self.last_position = max(self.last_position, receipt.position + count - 1)
        self.last_record = max(self.last_record, receipt.position + count - 1)
        return receipt

    def _close(self, who: Process, asked: Append, outcome: Outcome, receipt: Receipt | None) -> None:
        _, low_us, jumps = self._open.pop((who, asked.id[0] << 40 | asked.id[1]))
        told: dict[str, Any] = {} if receipt is None else {"pos": receipt.position, "shard": receipt.shard}
        is_over = outcome != "info" or not who.is_alive  # else it may be sent later, with the time of then
        if who.machine.jumps == jumps and is_over:
            told["ts"] = (low_us, who.machine.wall_us())
        self.events.append(replace(asked, ret=self.now_ns(), st=outcome, **told))

    async def publish(
        self,
        who: Process,
        key: str,
        parts: tuple[tuple[int, int, int], ...],
        shards: Sequence[int] | None,
        call: Callable[[], Awaitable[Published]],
    ) -> Published:
        """Carry out a publication, the only one of this process now; `shards` of the parts, unless others may be it."""
        asked = Publish(key, parts, self.now_ns(), self.now_ns(), "info")
        self._publishing[who] = asked
        try:
            published = await call()
        except IthacaError as error:
            self._published(who, "info" if error.outcome_unknown else "fail", None)
            raise
        self._published(who, "ok", published.position, shards)
        position = published.position
        for at, (session, seq, count) in enumerate(parts):
            self.acknowledged += count
            if shards is not None:
                self.placed.update(((session, seq + row), (shards[at], position + row)) for row in range(count))
            position += count
        self.last_position = max(self.last_position, position - 1)
        if parts:
            self.last_record = max(self.last_record, position - 1)
        return published

    def _published(
        self, who: Process, outcome: Outcome, position: int | None, shards: Sequence[int] | None = None
    ) -> None:
        asked = self._publishing.pop(who)
        told = UNSET if shards is None else tuple(shards)
        self.events.append(replace(asked, ret=self.now_ns(), st=outcome, pos=position, shards=told))

    def died(self, who: Process) -> None:
        """A process has ended in the middle of its calls."""
        if who in self._publishing:
            self._published(who, "info", None)
        for asked in [asked for (process, _), (asked, _, _) in self._open.items() if process is who]:
            self._close(who, asked, "info", None)

    def delivered(self, subscription: int, records: Iterable[Record]) -> None:
        now = self.now_ns()
        for record in records:
            found = payload.decode(record.value)
            self.events.append(Deliver(subscription, now, record.position, found, *_told(record)))

    def marked(self, subscription: int, up_to: int) -> None:
        """The subscription says that it has everything below."""
        if self._marks.get(subscription) != up_to:
            self._marks[subscription] = up_to
            self.events.append(Mark(subscription, self.now_ns(), up_to))

    def ranged(self, inv: int, start: int, stop: int, where: str | None, records: Sequence[Record]) -> None:
        """A range that was asked for at `inv` has ended."""
        ids = tuple((record.position, payload.decode(record.value)) for record in records)
        told = [_told(record) for record in records]
        keys, times = tuple(key for key, _, _ in told), tuple(time_us for _, time_us, _ in told)
        shards = tuple(shard for _, _, shard in told)
        self.events.append(Range(inv, self.now_ns(), start, stop, where, ids, keys, times, shards))

    def read(self, inv: int, position: int, found: Record | Literal["trimmed", "lost", "empty"] | None) -> None:
        """A read that was asked for at `inv` was answered; None: nothing is there yet."""
        if isinstance(found, Record):
            self.events.append(Read(position, inv, self.now_ns(), payload.decode(found.value), *_told(found)))
        else:
            self.events.append(Read(position, inv, self.now_ns(), found))

    async def tail(self, call: Awaitable[int]) -> int:
        """Ask for the tail, and note it."""
        inv = self.now_ns()
        tail = await call
        self.events.append(Tail(inv, self.now_ns(), tail))
        return tail

    def tail_seen(self, inv: int, tail: int) -> None:
        """Something that was asked for at `inv` has ended at the tail."""
        self.events.append(Tail(inv, self.now_ns(), tail))

    async def first(self, call: Awaitable[int]) -> int:
        """Ask for the first position, and note it."""
        inv = self.now_ns()
        first = await call
        self.events.append(First(inv, self.now_ns(), first))
        return first

    async def trim(self, before: int, call: Callable[[], Awaitable[None]], is_seen: Callable[[], bool]) -> None:
        """Trim: it may happen from now on, and has when the call returns, which all replicas may know then or not."""
        inv = self.now_ns()
        self.trimmed = max(self.trimmed, before)
        self.events.append(Trim(inv, None, before))
        await call()
        trim = Trim(inv, self.now_ns(), before, is_seen())
        self.events.append(trim)
        if not trim.seen:
            self.unseen.append(trim)

    def trim_seen(self, trim: Trim) -> None:
        """All replicas know of it by now."""
        self.unseen.remove(trim)
        self.events.append(replace(trim, ret=self.now_ns(), seen=True))


def _told(record: Record) -> tuple[str | None, int, int]:
    """What comes with a record: its key, its time, its shard."""
    return None if record.key is None else record.key.decode(), record.timestamp_us, record.shard
