"""What one handle of a consumer has open, takes, commits and writes, as the history of a simulated run has it.

Each opening of a part is a subscription. Where the takers of a seed write, each record with a key that they take is
written once, in one transaction with the commit: as the record of the part's own session whose number is the position
of the one that was taken. What is written has no key, so that nobody takes it again.
"""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace as changed

from ithaca.engines.registry import engine
from ithaca.model.consumers import CommitPosition, PartStands
from ithaca.model.engine import Feature
from ithaca.model.errors import PartGone
from ithaca.model.interface.awaited import ClusterLog, Consumer
from ithaca.proof import payload
from ithaca.proof.history import Append, Commit, Hand, Own
from ithaca.sim.recorder import Recorder

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration

_CHANCE = 0.6
_GIVEN_UP = 0.1


def with_writing(configuration: "Configuration") -> "Configuration":
    """The same, or with takers that write, where the engine can publish what they write with their commits."""
    random = Random(f"takers of {configuration.seed}")
    takes = configuration.consumers or configuration.group_members
    can_publish = Feature.PREPARED in engine(configuration.engine).features
    return replace(configuration, takers_write=bool(takes and can_publish and random.random() < _CHANCE))


class OutSessions:
    """The sessions of what is written: one for each part of each consumer, whoever has it."""

    def __init__(self, recorder: Recorder) -> None:
        self._sessions: dict[tuple[str, int], int] = defaultdict(recorder.new_out_session)

    def of(self, consumer: str, part: int) -> int:
        return self._sessions[consumer, part]


class GivenUp(Exception):
    """A transaction was left on purpose: nothing of it may be there."""


class Taking:
    """One handle; without `out` it writes nothing."""

    def __init__(self, recorder: Recorder, name: str, out: OutSessions | None) -> None:
        self._recorder = recorder
        self._name = name
        self._out = out
        self._subscriptions: dict[tuple[int, int], int] = {}
        """By part and epoch."""
        self._expected: dict[int, int] = {}
        """By subscription: what the history says that the handle may have committed by itself."""
        self._taken: list[tuple[int, int]] = []
        """Part and position of what is to be written for: handed out, and not committed."""

    @property
    def must_write(self) -> bool:
        """Whether something was taken that is not written for."""
        return bool(self._taken)

    def opened(self, stands: PartStands, where: str | None, inv: int) -> int:
        """A part is its own from now on; says which subscription it is."""
        recorder = self._recorder
        number = recorder.subscribed(stands.position, where, inv)
        self._subscriptions[stands.part, stands.epoch] = number
        out = UNSET if self._out is None else self._out.of(self._name, stands.part)
        now = recorder.now_ns()
        recorder.events.append(Own(self._name, stands.part, stands.epoch, stands.position, number, inv, now, out))
        return number

    def handed_out(self, subscription: int, part: int, positions: Sequence[int], inv: int) -> None:
        """A call that began at `inv` has returned records with keys at these positions."""
        self._recorder.events.append(Hand(subscription, inv, self._recorder.now_ns()))
        self.took(part, positions)

    def took(self, part: int, positions: Sequence[int]) -> None:
        """These are to be written for, where something is written."""
        if self._out is not None:
            self._taken += [(part, position) for position in positions]

    def commits(self, commits: Sequence[CommitPosition]) -> list[Commit]:
        """These are about to be asked for, or may be. To commit is to say that one has all below."""
        now = self._recorder.now_ns()
        lines = []
        for each in commits:
            number = self._subscriptions[each.part, each.epoch]
            self._recorder.marked(number, each.position)
            lines.append(Commit(number, each.position, now, now, "info"))
        self._recorder.events += lines
        return lines

    def may_commit(self, standing: Sequence[PartStands]) -> None:
        """The handle may commit these by itself."""
        now = self._recorder.now_ns()
        for stands in standing:
            number = self._subscriptions.get((stands.part, stands.epoch))
            if number is not None and self._expected.get(number) != stands.position:
                self._expected[number] = stands.position
                self._recorder.events.append(Commit(number, stands.position, now, now, "info"))

    def committed(self, lines: Sequence[Commit]) -> None:
        """They were acknowledged."""
        now = self._recorder.now_ns()
        self._recorder.events += [changed(line, ret=now, st="ok") for line in lines]

    async def write(self, log: ClusterLog, handle: Consumer, ways: Random) -> None:
        """Write for all that was taken, and commit; what fails is handed out again."""
        async with handle.transaction() as transaction:
            taken, self._taken = self._taken, []
            step = ways.randint(1, len(taken))
            for first in range(0, len(taken), step):
                await transaction.append_many(self._values(taken[first : first + step]))
            if ways.random() < _GIVEN_UP:
                await self._publish_what_is_gone(log, handle)
                raise GivenUp

    async def _publish_what_is_gone(self, log: ClusterLog, handle: Consumer) -> None:
        """It must be refused, and then nothing of what was consumed is committed."""
        session, now = self._recorder.new_out_session(), self._recorder.now_ns()
        self._recorder.events.append(Append((session, 1), 1, now, now, "info"))
        part = await log.prepare([payload.encode(session, 1, payload.HEAD_BYTES)])
        await log.abort([part])
        with suppress(PartGone):
            await log.publish_once([part], consumed={handle: handle.position})
            raise AssertionError("a part that was aborted has been published")

    def _values(self, taken: Sequence[tuple[int, int]]) -> list[bytes]:
        assert self._out is not None
        now, ids = self._recorder.now_ns(), [(self._out.of(self._name, part), position) for part, position in taken]
        self._recorder.events += [Append(each, 1, now, now, "info") for each in ids]
        return [payload.encode(*each, payload.HEAD_BYTES) for each in ids]
