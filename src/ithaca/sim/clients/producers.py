"""The producers of a simulated cluster: real handles in processes of their own, and what they were told."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, TypeVar

from ithaca.model.errors import IthacaError, SequenceGap, SessionError
from ithaca.model.interface.awaited import ClusterLog, Session
from ithaca.model.records import Receipt
from ithaca.proof import payload
from ithaca.sim.clients.connecting import AGAIN_S, CALL_S, connected
from ithaca.sim.process import Process

if TYPE_CHECKING:
    from ithaca.sim.world import World

T = TypeVar("T")

KEYS = (b"blue", b"black", b"green", b"red")
_PATIENT_S = 3600.0
_FAR = 1 << 20
"""Numbers of a session that no run comes to."""


def _plain_call(
    random: Random, log: ClusterLog, values: list[bytes], key: bytes | None
) -> Callable[[], Awaitable[Receipt]]:
    """One of the ways to append, in a batch or alone."""

    async def submitted() -> Receipt:
        pending = await log.submit_many(values, keys=None if key is None else [key] * len(values))
        return await pending

    def together() -> Awaitable[Receipt]:
        return log.append_many(values, keys=None if key is None else [key] * len(values))

    if len(values) > 1:
        return random.choice((submitted, together))
    return random.choice((submitted, together, lambda: log.append(values[0], key=key)))


class _Numbers:
    """What a producer has done in its session, as it knows it itself: under numbers of its own, from 1 on."""

    def __init__(self, session: int, offset: int) -> None:
        self.session = session
        """In the history."""
        self.offset = offset
        """What the log's numbers are higher by: those that were given before."""
        self.next_seq = 1
        self.unsettled: dict[int, tuple[int, bytes | None]] = {}
        """Batches that were sent and have no receipt: their counts and keys, by first number."""


class Producer:
    """Appends by sessions and without; its progress outlives its processes, as a program's own records do.

    One that takes over does not repeat what has no receipt: it opens its session again, with either of two handles and
    even while batches are on their way, and goes on behind whatever is there then. The former session may not know.
    """

    def __init__(self, world: "World", number: int) -> None:
        self.name = f"producer-{number}"
        self._world = world
        self._configuration = world.configuration
        self._numbers = _Numbers(world.recorder.new_session(), 0)
        self._is_appending = False
        self.succeeded = 0

    @property
    def is_settled(self) -> bool:
        """Whether it waits for nothing any more."""
        return not self._numbers.unsettled and not self._is_appending

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        self._is_appending = False
        call_s = _PATIENT_S if self._configuration.is_patient else CALL_S
        log = await self._connected(call_s)
        logs = [log, await self._connected(call_s)] if self._configuration.takes_over else [log]
        await asyncio.gather(self._append_plainly(who, random, log), self._append_in_session(who, random, logs))

    async def _connected(self, call_s: float) -> ClusterLog:
        return await connected(self._world, call_s, program=self.name, rights=("append",))

    def _batch(self, session: int, seq: int, count: int) -> list[bytes]:
        most = self._configuration.record_bytes_max
        sizes = Random(f"{session}/{seq}")
        return [payload.encode(session, seq + row, sizes.randint(payload.HEAD_BYTES, most)) for row in range(count)]

    async def _append_plainly(self, who: Process, random: Random, log: ClusterLog) -> None:
        """Each for itself: after one whose outcome is unknown, nothing is promised about their order."""
        while self._world.is_loaded:
            self._is_appending = True
            if random.random() < 0.3:  # they come together in one batch, each with a key of its own
                await asyncio.gather(*(self._append_batch(who, random, log, 1) for _ in range(random.randint(2, 5))))
            else:
                await self._append_batch(who, random, log, random.randint(1, self._configuration.records_max))
            self._is_appending = False
            await asyncio.sleep(random.uniform(0, 2 * self._configuration.pause_between_appends_s))

    async def _append_batch(self, who: Process, random: Random, log: ClusterLog, count: int) -> None:
        session, seq = self._world.recorder.new_session(), 1
        key = random.choice((None, *KEYS))
        call = _plain_call(random, log, self._batch(session, seq, count), key)
        try:
            await self._world.recorder.append(who, session, seq, count, key, call)
            self.succeeded += 1
        except IthacaError as error:
            self._world.met(error, "append")

    async def _append_in_session(self, who: Process, random: Random, logs: list[ClusterLog]) -> None:
        former: Session | None = None
        while self._world.is_loaded or self._numbers.unsettled:
            try:
                session = await random.choice(logs).session(self.name)
            except IthacaError as error:
                self._world.met(error, "session")
                await asyncio.sleep(AGAIN_S)
                continue
            late = []
            if self._configuration.takes_over:
                if former is not None and random.random() < 0.5:
                    late.append(self._send_too_late(who, random, former, self._numbers))
                former = session
                self._numbers = _Numbers(self._world.recorder.new_session(), session.next_seq - 1)
            try:
                await asyncio.gather(*late, self._use(who, random, session))
            except SessionError as error:
                self._world.met(error, "append in a session")
            await asyncio.sleep(random.choice((0, AGAIN_S)) if self._configuration.takes_over else AGAIN_S)

    async def _send_too_late(self, who: Process, random: Random, session: Session, numbers: _Numbers) -> None:
        """One more batch in a session that was opened again since: it must be refused."""
        count = random.randint(1, self._configuration.records_max)
        seq, numbers.next_seq = numbers.next_seq, numbers.next_seq + count
        numbers.unsettled[seq] = (count, None)
        with suppress(SessionError):
            await self._send(who, numbers, session, seq, count, None)
            assert seq in numbers.unsettled, f"a session of {self.name} that was opened again since took a batch"

    async def _use(self, who: Process, random: Random, session: Session) -> None:
        """First what was left over, then new ones, several at once."""
        numbers = self._numbers
        for seq in sorted(numbers.unsettled):
            count, key = numbers.unsettled[seq]
            await self._send(who, numbers, session, seq, count, key)
        while self._world.is_loaded:
            sent = []
            for _ in range(self._configuration.window):
                count = random.randint(1, self._configuration.records_max)
                seq, numbers.next_seq = numbers.next_seq, numbers.next_seq + count
                key = random.choice((None, *KEYS))
                numbers.unsettled[seq] = (count, key)
                sent.append(asyncio.ensure_future(self._send(who, numbers, session, seq, count, key)))
                if random.random() < 0.03:
                    sent.append(asyncio.ensure_future(self._leave_gap(session, numbers)))
            outcomes = asyncio.gather(*sent, return_exceptions=True)
            if self._configuration.takes_over and random.random() < 0.1:
                await asyncio.wait([outcomes], timeout=random.choice((0, 0.01, 1)))
                return
            for outcome in await outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome
            if numbers.unsettled:
                return
            await asyncio.sleep(random.uniform(0, 2 * self._configuration.pause_between_appends_s))

    async def _leave_gap(self, session: Session, numbers: _Numbers) -> None:
        """A batch whose number follows none: it must be refused, and nothing else must suffer."""
        values = self._batch(numbers.session, numbers.next_seq + _FAR, 1)
        with suppress(IthacaError):
            await session.append_many(values, seq=numbers.offset + numbers.next_seq + _FAR)
            raise AssertionError(f"{self.name} left out {_FAR} numbers, and its batch was taken")

    async def _send(
        self, who: Process, numbers: _Numbers, session: Session, seq: int, count: int, key: bytes | None
    ) -> None:
        values = self._batch(numbers.session, seq, count)
        keys = None if key is None else [key] * count
        try:
            await self._world.recorder.append(
                who,
                numbers.session,
                seq,
                count,
                key,
                lambda: session.append_many(values, keys=keys, seq=numbers.offset + seq),
            )
        except SequenceGap as error:
            if min(numbers.unsettled) < seq:
                raise  # the one before it was refused, or is still on its way
            raise AssertionError(f"number {seq} of {self.name} follows what it was told, and is refused") from error
        except SessionError:
            raise
        except IthacaError as error:
            self._world.met(error, "append in a session")
            return
        del numbers.unsettled[seq]
        self.succeeded += 1
