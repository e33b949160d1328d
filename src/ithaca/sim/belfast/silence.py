"""Idle means silent: once nobody appends, nothing is said and nothing is ordered, whoever listens.

What is left are the heartbeats of Raft, the signs of life of replicas, which say nothing of slots, and reports of parts
that nobody has finished: they are repeated for as long as these parts live.
"""

from collections.abc import Callable

from ithaca.engines.belfast.messages import (
    AskPromise,
    CopyLane,
    LaneCopied,
    LaneReportIs,
    LaneSynced,
    PassTo,
    PromiseIs,
    SlotOrderIs,
    SlotsAre,
    Speculated,
)
from ithaca.engines.scalog.messages.reporting import News, ReportIs
from ithaca.protocol.codec import Message
from ithaca.runtime.connection import Connection
from ithaca.sim.rules.witness import Sight
from ithaca.sim.scheduler import NS_PER_S
from ithaca.sim.violation import Violation
from ithaca.sim.world import World

RULE = "idle-silent"
_OF_ORDER = (LaneReportIs, SlotsAre, PassTo, LaneSynced, ReportIs, News)
_OF_TAKEOVERS = (AskPromise, PromiseIs, CopyLane, LaneCopied)
_OF_SPECULATORS = (SlotOrderIs, Speculated)
_SAID = (*_OF_ORDER, *_OF_TAKEOVERS, *_OF_SPECULATORS)

SILENT_S = 2.0
"""So long nothing is said, at some time."""
IDLE_S = 10.0
"""So long after the last append, at the latest."""


class Silence:
    """Hears what servers say to each other and to speculators."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._last_ns = 0
        self._said = ""
        self._since_ns: int | None = None
        """Since when everybody is done."""

    def sights(self) -> list[Sight]:
        return [(Connection, "send", self._sends)]

    def _sends(self, original: Callable[..., None], connection: Connection, message: Message, **named: object) -> None:
        if isinstance(message, _SAID) and not _has_part(message):
            self.broken(type(message).__name__)
        original(connection, message, **named)

    def broken(self, what: str) -> None:
        """Something was said, or ordered."""
        self._last_ns, self._said = self._world.scheduler.now_ns, what

    def has_come(self) -> bool:
        """Whether it is silent, once everybody is done; raises if that does not come."""
        now_ns = self._world.scheduler.now_ns
        if self._since_ns is None:
            self._since_ns = now_ns
        if now_ns - self._since_ns > IDLE_S * NS_PER_S:
            said = f"nobody has appended for {IDLE_S:g} s, and every {SILENT_S:g} s something is said"
            raise Violation(RULE, f"{said}: the last was {self._said}")
        return now_ns - self._last_ns >= SILENT_S * NS_PER_S


def _has_part(message: Message) -> bool:
    return isinstance(message, ReportIs) and any(lane.is_part for lane, _ in message.report.lengths)
