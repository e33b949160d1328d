"""Retention: what is older, or more, than the cluster's file says is trimmed by the leader (design §5 "Trim").

The replicas know where a time, or so many bytes, begin in their shard; the leader knows nothing of either. So it asks
one replica of each shard now and then, and proposes the trim that follows, as a client could. The order's times rise
with its positions: what is too old ends at the least position that any shard says, so all must answer. No shard may
hold too much: where that ends is the greatest position that any says.

Age goes by the clock that a majority of the voters have reached, and never by more than the order's time. How fast
records may go by it is said by `model.trim_pace`.
"""

import logging
from collections.abc import Callable

from ithaca.consumers.holding import ConsumerHold
from ithaca.engines.scalog.messages.reading import KeptFrom, SeekBytes, SeekTime, TimeIs
from ithaca.engines.scalog.ordering.entries import TrimTo
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer.ports import Looking, Submit
from ithaca.engines.scalog.server.orderer.time import OrderTime
from ithaca.model.errors import IthacaError
from ithaca.model.limits import RETENTION_LARGE_PERCENT, RETENTION_WAIT_S
from ithaca.model.records import Retention
from ithaca.model.trim_pace import Announcement, TrimPace
from ithaca.model.view import Shard
from ithaca.protocol.codec import Message
from ithaca.runtime.connection import OnlyAnswers
from ithaca.runtime.dialling import Said, dial
from ithaca.runtime.machine import monotonic_s, monotonic_us

_log = logging.getLogger("ithaca.orderer")


class OrderRetention:
    """Looks what may go, during one term."""

    def __init__(
        self, kept: Retention, state: OrderingState, hello: Callable[[], Said], submit: Submit, clock: OrderTime
    ) -> None:
        self._kept = kept
        self._state = state
        self._hello = hello
        self._submit = submit
        self._clock = clock
        looking = Looking("looking for what may be trimmed", self._look)
        self.look, self.end = looking.begin, looking.end
        self._told: Announcement | None = None
        self._hold = ConsumerHold.of(kept)
        trusted_us = None if kept.age is None or state.first == state.tail else clock.read()
        # Nothing is too little to wait: the order's time may be ahead since an earlier leader's clock was.
        self._pace = TrimPace.of(kept, trusted_us, monotonic_us(), large_percent=0)

    @property
    def announced(self) -> Announcement | None:
        """What is too old, and waits to be trimmed, if that is worth a warning: the little that each term begins with
        is not."""
        announced = None if self._pace is None else self._pace.announced
        if announced is None or announced.positions <= 0:
            return None
        is_large = announced.positions * 100 > (self._state.tail - self._state.first) * RETENTION_LARGE_PERCENT
        return announced if is_large or announced.is_stepped else None

    def status(self) -> dict[str, int] | None:
        """The announcement, for people."""
        notice = self.announced
        if notice is None:
            return None
        waits_us = notice.since_us + int(RETENTION_WAIT_S * 1e6) - monotonic_us()
        return {"before": notice.before, "positions": notice.positions, "in_s": max(0, waits_us) // 1_000_000}

    async def _look(self) -> None:
        shards = list(self._state.shards.by_number.values())
        before = max(await self._too_old(shards), await self._too_much(shards))
        if self._hold is not None and before:
            before = self._hold.allowed(before, self._state.consumers, monotonic_s())
        if before > self._state.first:
            self._submit(TrimTo(before), lambda _: _log.info("retention: trimmed before %d", before), _not_trimmed)

    async def _too_old(self, shards: list[Shard]) -> int:
        """The position before which everything is too old; 0 if that is not known."""
        clock_us = self._clock.agreed_us()
        if self._pace is None or clock_us is None:
            return 0
        cutoffs = self._pace.look(clock_us, monotonic_us())
        tail = self._state.tail
        wanted = await self._found(shards, cutoffs.wanted_us, tail)
        is_one = cutoffs.calm_us == cutoffs.wanted_us
        calm = wanted if is_one else await self._found(shards, cutoffs.calm_us, tail)
        now_us = self._clock.agreed_us()
        if wanted is None or calm is None or now_us is None or now_us < clock_us:
            return 0  # also if a clock was set back while the shards were asked
        before = self._pace.decide(cutoffs, calm, wanted, self._state.first, tail)
        self._tell()
        return before

    def _tell(self) -> None:
        """Say in the log what is announced, and when that is over."""
        announced = self.announced
        if announced is not None and (self._told is None or announced.since_us != self._told.since_us):
            _log.warning(
                "retention: what is before position %d (%d positions) is too old by the orderers' clocks, and goes in "
                "%g s: if that is wrong, set the clocks, or stop the leader and correct the cluster's file",
                announced.before,
                announced.positions,
                RETENTION_WAIT_S,
            )
        elif announced is None and self._told is not None:
            _log.warning(
                "retention: what was announced, up to position %d, has gone or is not too old any more",
                self._told.before,
            )
        self._told = announced

    async def _found(self, shards: list[Shard], time_us: int, tail: int) -> int | None:
        """The position before which everything was ordered before this time; None if some shard does not say."""
        question = SeekTime(time_us, tail)
        starts: list[int] = []
        for shard in shards:
            answer = await self._ask(shard, question)
            if not isinstance(answer, TimeIs):
                return None
            starts.append(answer.position or tail)
        return min(starts, default=None)

    async def _too_much(self, shards: list[Shard]) -> int:
        """The position before which some shard has more than it may hold; 0 if none has."""
        if self._kept.bytes is None:
            return 0
        answers = [await self._ask(shard, SeekBytes(self._kept.bytes)) for shard in shards]
        return max((answer.position for answer in answers if isinstance(answer, KeptFrom)), default=0)

    async def _ask(self, shard: Shard, question: SeekTime | SeekBytes) -> Message | None:
        """What one replica of the shard answers, whichever does; None when there is none."""
        for replica in shard.replicas:
            try:
                connection = await dial(replica.address, self._hello(), OnlyAnswers())
                try:
                    return (await connection.request(question)).message
                finally:
                    connection.abort()
            except IthacaError as error:
                _log.info("retention: replica %d/%d does not say: %s", shard.shard, replica.replica, error)
        return None


def _not_trimmed(error: IthacaError) -> None:
    _log.info("retention: nothing was trimmed, which is tried again: %s", error)
