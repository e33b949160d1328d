"""A directory on which consumers have transactions, in both faces: what they do with them needs no cluster then.

What is published is appended, and what was consumed is committed before: one after the other, since nobody else is
there. It keeps what it was asked, and can be made to fail.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ithaca.client.consuming.known import commits_of
from ithaca.embedded.aio import AsyncEmbeddedLog
from ithaca.embedded.engine import Engine
from ithaca.embedded.log import EmbeddedLog
from ithaca.model import interface
from ithaca.model.consumers import ConsumerOutcome, ConsumerRefused, refusal_error
from ithaca.model.groups import GroupBeat, GroupTold
from ithaca.model.interface import awaited
from ithaca.model.interface.shared import Consumed
from ithaca.model.limits import PART_INCARNATION_MIN, PART_TTL_S
from ithaca.model.parts import Part, Published
from ithaca.model.positions import LaneId
from ithaca.model.records import Buffer, Keys, Values
from ithaca.model.units import Duration


@dataclass(eq=False)
class Rows:
    """The records of one part."""

    values: list[Buffer] = field(default_factory=list)
    keys: list[Buffer | None] = field(default_factory=list)
    part: Part | None = None
    is_aborted: bool = False

    def add(self, values: Values, keys: Keys | None) -> None:
        added = list(values)
        self.values += added
        self.keys += [None] * len(added) if keys is None else list(keys)


class Asked:
    """What a log was asked, and with what it fails."""

    def __init__(self) -> None:
        self.parts: list[Rows] = []
        self.beats: list[GroupBeat] = []
        self.failure: Exception | None = None
        """What publishing fails with."""

    def begun(self) -> Rows:
        self.parts.append(Rows())
        return self.parts[-1]

    def finished(self, rows: Rows) -> Part:
        lane = LaneId(0, 0, PART_INCARNATION_MIN + self.parts.index(rows))
        rows.part = Part(lane, len(rows.values), bytes(16))
        return rows.part

    def rows_of(self, parts: Iterable[Part]) -> Rows:
        """All that is to be published, unless that fails."""
        if self.failure is not None:
            raise self.failure
        wanted, found = set(parts), Rows()
        for rows in self.parts:
            if rows.part in wanted:
                found.add(rows.values, rows.keys)
        return found


class BlockingWriter(interface.PartWriter):
    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._rows = asked.begun()

    @property
    def length(self) -> int:
        return len(self._rows.values)

    @property
    def is_finished(self) -> bool:
        return self._rows.part is not None

    def append_many(self, values: Values, *, keys: Keys | None = None, timeout: Duration | None = None) -> None:
        self._rows.add(values, keys)

    def finish(self, *, timeout: Duration | None = None) -> Part:
        return self._asked.finished(self._rows)

    def abort(self) -> None:
        self._rows.is_aborted = True


class AwaitedWriter(awaited.PartWriter):
    def __init__(self, asked: Asked) -> None:
        self._twin = BlockingWriter(asked)

    @property
    def length(self) -> int:
        return self._twin.length

    @property
    def is_finished(self) -> bool:
        return self._twin.is_finished

    async def append_many(self, values: Values, *, keys: Keys | None = None, timeout: Duration | None = None) -> None:
        self._twin.append_many(values, keys=keys)

    async def finish(self, *, timeout: Duration | None = None) -> Part:
        return self._twin.finish()

    async def abort(self) -> None:
        self._twin.abort()


class PublishingLog(EmbeddedLog):
    """`ithaca.open` with prepared parts."""

    def __init__(self, engine: Engine, asked: Asked) -> None:
        super().__init__(engine)
        self._asked = asked

    def beat_group(self, beat: GroupBeat, *, timeout: Duration | None = None) -> GroupTold:
        self._asked.beats.append(beat)
        return super().beat_group(beat, timeout=timeout)

    def open_part(
        self, *, shard: int | None = None, ttl: Duration = PART_TTL_S, timeout: Duration | None = None
    ) -> BlockingWriter:
        return BlockingWriter(self._asked)

    def publish_once(
        self, parts: Iterable[Part], *, consumed: Consumed | None = None, timeout: Duration | None = None
    ) -> Published:
        rows = self._asked.rows_of(parts)
        _check(self.change_consumers(commits_of(consumed)))
        receipt = self.append_many(rows.values, keys=rows.keys)
        return Published("once", 1, "", receipt.position, receipt.count)


class AsyncPublishingLog(AsyncEmbeddedLog):
    """`ithaca.aio.open` with prepared parts."""

    def __init__(self, engine: Engine, asked: Asked) -> None:
        super().__init__(engine)
        self._asked = asked

    async def beat_group(self, beat: GroupBeat, *, timeout: Duration | None = None) -> GroupTold:
        self._asked.beats.append(beat)
        return await super().beat_group(beat, timeout=timeout)

    async def open_part(
        self, *, shard: int | None = None, ttl: Duration = PART_TTL_S, timeout: Duration | None = None
    ) -> AwaitedWriter:
        return AwaitedWriter(self._asked)

    async def publish_once(
        self, parts: Iterable[Part], *, consumed: Consumed | None = None, timeout: Duration | None = None
    ) -> Published:
        rows = self._asked.rows_of(parts)
        _check(await self.change_consumers(commits_of(consumed)))
        receipt = await self.append_many(rows.values, keys=rows.keys)
        return Published("once", 1, "", receipt.position, receipt.count)


def _check(outcomes: Iterable[ConsumerOutcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, ConsumerRefused):
            raise refusal_error(outcome)
