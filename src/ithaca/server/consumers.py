"""What a leader does for named consumers, the same in every engine: changes are gathered, idle ones expire, members of
groups are told which parts are theirs.

Whatever clients ask for while one entry is under way goes into the next one together. So many that commit often cost
the group no more entries than a few.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from ithaca.consumers.groups import GroupBook
from ithaca.consumers.idle import IdleConsumers
from ithaca.consumers.lagging import ConsumerLag, TailTimes
from ithaca.consumers.limits import (
    CONSUMERS_BUSY,
    CONSUMERS_CHECK_S,
    CONSUMERS_GATHER_S,
    CONSUMERS_SHOWN_MAX,
    CONSUMERS_WAITING_MAX,
)
from ithaca.consumers.table import ConsumerChanges, ConsumerTable, page
from ithaca.model.consumers import CommitPosition, ConsumerCommand, ConsumerOutcome
from ithaca.model.errors import IthacaError, Overloaded, Unavailable
from ithaca.model.limits import CONSUMER_COMMANDS_MAX
from ithaca.protocol.codec import Received
from ithaca.protocol.consumers import BeatGroup, ConsumersAre, GetConsumers, GetGroup, GroupBeaten, GroupIs
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import monotonic_s
from ithaca.runtime.raft.ports import Waiter

_log = logging.getLogger("ithaca.consumers")

Asked = tuple[tuple[ConsumerCommand, ...], Waiter]
Propose = Callable[
    [ConsumerChanges, Callable[[tuple[ConsumerOutcome, ...]], None], Callable[[IthacaError], None]], None
]
"""Has an entry agreed on: calls one of the two, perhaps from within Raft."""


Question = GetConsumers | BeatGroup | GetGroup
"""What a leader is asked that changes nothing that is agreed on."""


class ConsumerDesk:
    """The changes of consumers that a server was asked for, while it leads."""

    def __init__(
        self, propose: Propose, table: Callable[[], ConsumerTable], time_us: Callable[[], int], idle_s: int | None
    ) -> None:
        """`table` is what is agreed on, `time_us` the leader's clock; without `idle_s` none expires by itself."""
        self._propose = propose
        self._table = table
        self._time_us = time_us
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Asked] = deque()
        self._waiting_count = 0
        self._is_under_way = False
        self._is_planned = False
        self._tails = TailTimes()
        self._recent = RecentConsumers()
        self._groups: GroupBook | None = None
        self._idle: IdleConsumers | None = None
        self._look_timer: asyncio.TimerHandle | None = None

    # Terms

    def begin(self) -> None:
        """This server leads, and may propose."""
        if self._groups is None:
            self._groups = GroupBook(monotonic_s())
        if self._idle_s is not None and self._idle is None:
            self._idle = IdleConsumers(self._idle_s)
            self._look()

    def end(self) -> None:
        """It does not any more: what was not proposed yet was not done, and whoever asked is told."""
        self._groups = self._idle = None
        if self._look_timer is not None:
            self._look_timer.cancel()
            self._look_timer = None
        waiting, self._waiting = self._waiting, deque()
        self._waiting_count = 0
        for _, waiter in waiting:
            waiter.failed(Unavailable("this server does not lead any more: ask who does"))

    # What clients ask

    def change(self, commands: tuple[ConsumerCommand, ...], waiter: Waiter) -> None:
        """Have these agreed on; `waiter.done` gets their outcomes."""
        if self._waiting_count + len(commands) > CONSUMERS_WAITING_MAX:
            waiter.failed(
                Overloaded(f"{self._waiting_count} changes of consumers wait, and {CONSUMERS_WAITING_MAX} is the most")
            )
            return
        self._waiting.append((commands, waiter))
        self._waiting_count += len(commands)
        self._plan()

    def answer(self, connection: Connection, request: Received, question: Question) -> None:
        """Say what is agreed on, or what a member of a group is to do.

        It is called once Raft has confirmed that this server led when the question had come.
        """
        try:
            connection.answer(request, self._told(question))
        except IthacaError as error:
            connection.fail(request, error)

    def _told(self, question: Question) -> ConsumersAre | GroupBeaten | GroupIs:
        if self._groups is None:
            raise Unavailable("this server does not lead any more: ask who does")
        match question:
            case GetConsumers(after):
                return ConsumersAre(self._time_us(), page(self._table().after(after)))
            case BeatGroup(beat):
                return GroupBeaten(self._groups.beat(self._table(), beat, monotonic_s()))
            case GetGroup(name):
                return GroupIs(self._groups.members(self._table(), name, monotonic_s()))

    # What others learn

    def noted(self, tail: int) -> None:
        """The tail is here now."""
        self._tails.note(tail, monotonic_s())

    def lags(self, tail: int) -> list[ConsumerLag]:
        """How far each consumer is behind, on a log that ends here."""
        return self._tails.lags(self._table(), tail, monotonic_s())

    def status(self, tail: int) -> list[dict[str, Any]]:
        """Those furthest behind, for people."""
        most = sorted(self.lags(tail), key=lambda lag: -lag.positions)[:CONSUMERS_SHOWN_MAX]
        return [
            {"name": lag.name, "position": lag.position, "lag_positions": lag.positions, "lag_s": round(lag.seconds, 3)}
            for lag in most
        ]

    # Entries

    def _plan(self) -> None:
        """What comes in one turn of the loop goes together; and a proposal must not be made from within Raft."""
        if self._waiting and not self._is_under_way and not self._is_planned:
            self._is_planned = True
            if self._recent.is_busy:
                self._loop.call_later(CONSUMERS_GATHER_S, self._flush)
            else:
                self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_planned = False
        asked: list[Asked] = []
        count = 0
        while self._waiting and count + len(self._waiting[0][0]) <= CONSUMER_COMMANDS_MAX:
            asked.append(self._waiting.popleft())
            count += len(asked[-1][0])
        if not asked:
            return
        self._waiting_count -= count
        self._is_under_way = True

        def done(outcomes: tuple[ConsumerOutcome, ...]) -> None:
            self._is_under_way = False
            start = 0
            for commands, waiter in asked:
                waiter.done(outcomes[start : start + len(commands)])
                start += len(commands)
            self._plan()

        def failed(error: IthacaError) -> None:
            self._is_under_way = False
            for _, waiter in asked:
                waiter.failed(error)
            self._plan()

        commands = tuple(command for several, _ in asked for command in several)
        self._recent.note(commands, monotonic_s())
        self._propose(ConsumerChanges(commands, self._time_us()), done, failed)

    def _look(self) -> None:
        assert self._idle is not None
        expired = self._idle.look(self._table(), monotonic_s())
        if expired:
            _log.info("%d consumer(s) were idle, and expire", len(expired))
            self.change(tuple(expired), Waiter(lambda _: None, _not_expired))
        self._look_timer = self._loop.call_later(CONSUMERS_CHECK_S, self._look)


class RecentConsumers:
    """Whether so many consumers are at work that waiting for more of them is worth it: one that commits in a loop, or a
    few, are answered at once."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._since_s = 0.0
        self.is_busy = False

    def note(self, commands: tuple[ConsumerCommand, ...], now_s: float) -> None:
        """These were asked for, by a clock that never falls."""
        if now_s - self._since_s >= 1.0:
            self.is_busy = len(self._names) > CONSUMERS_BUSY
            self._names, self._since_s = set(), now_s
        self._names.update(command.name for command in commands if isinstance(command, CommitPosition))
        self.is_busy = self.is_busy or len(self._names) > CONSUMERS_BUSY


def _not_expired(error: IthacaError) -> None:
    _log.info("idle consumers did not expire, which is tried again: %s", error)
