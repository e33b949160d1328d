"""The history of a simulated run, as its clients were told."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from ithaca.model.errors import IthacaError
from ithaca.model.parts import Published
from ithaca.model.records import Receipt, Record
from ithaca.proof import payload
from ithaca.proof.history import AnyEvent, Append, Deliver, Id, Outcome, Publish, Sub


class Recorder:
    """The history of a run, in memory. What a process was doing when it died becomes `info`."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.now_ns = now_ns
        self.events: list[AnyEvent] = []
        self.acknowledged = 0
        """Records."""
        self.last_position = 0
        self.placed: dict[Id, tuple[int, int]] = {}
        """Records that were acknowledged: their shards and positions."""
        self.trimmed = 0
        """Positions below may be gone."""
        self._open: dict[tuple[object, int], Append] = {}
        self._publishing: dict[object, Publish] = {}
        self._sessions = 0
        self._subscriptions = 0

    def new_session(self) -> int:
        self._sessions += 1
        return self._sessions

    def subscribed(self, start: int, where: str | None) -> int:
        self._subscriptions += 1
        self.events.append(Sub(self._subscriptions, start, where))
        return self._subscriptions

    async def append(
        self, who: object, session: int, seq: int, count: int, key: bytes | None, call: Callable[[], Awaitable[Receipt]]
    ) -> Receipt:
        """Carry out an append, and note what came of it: what is raised says whether its outcome is known."""
        inv = self.now_ns()
        text = None if key is None else key.decode()
        asked = Append((session, seq), count, inv, inv, "info", None, text)
        self._open[who, session << 40 | seq] = asked
        try:
            receipt = await call()
        except IthacaError as error:
            self._close(who, asked, "info" if error.outcome_unknown else "fail", None)
            raise
        self._close(who, asked, "ok", receipt.position)
        self.acknowledged += count
        for row in range(count):
            self.placed[session, seq + row] = (receipt.shard, receipt.position + row)
        self.last_position = max(self.last_position, receipt.position + count - 1)
        return receipt

    def _close(self, who: object, asked: Append, outcome: Outcome, position: int | None) -> None:
        del self._open[who, asked.id[0] << 40 | asked.id[1]]
        self.events.append(Append(asked.id, asked.n, asked.inv, self.now_ns(), outcome, position, asked.key))

    async def publish(
        self,
        who: object,
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
        self._published(who, "ok", published.position)
        position = published.position
        for at, (session, seq, count) in enumerate(parts):
            self.acknowledged += count
            if shards is not None:
                self.placed.update(((session, seq + row), (shards[at], position + row)) for row in range(count))
            position += count
        self.last_position = max(self.last_position, position - 1)
        return published

    def _published(self, who: object, outcome: Outcome, position: int | None) -> None:
        asked = self._publishing.pop(who)
        self.events.append(Publish(asked.key, asked.parts, asked.inv, self.now_ns(), outcome, position))

    def died(self, who: object) -> None:
        """A process has ended in the middle of its calls."""
        if who in self._publishing:
            self._published(who, "info", None)
        for key, asked in [item for item in self._open.items() if item[0][0] is who]:
            del self._open[key]
            self.events.append(Append(asked.id, asked.n, asked.inv, self.now_ns(), "info", None, asked.key))

    def delivered(self, subscription: int, records: Iterable[Record]) -> None:
        now = self.now_ns()
        for record in records:
            self.events.append(Deliver(subscription, now, record.position, payload.decode(record.value)))
