"""Plain appends: a handle rotates several anonymous sessions, each with one batch under way."""

import asyncio
from collections.abc import Callable

from ithaca.client.appending.outgoing import numbered
from ithaca.engines.corfu.client.driving import Driver
from ithaca.engines.corfu.sequencing.commands import OpenSession, SessionIs, Void
from ithaca.engines.corfu.sequencing.entries import entry_of
from ithaca.engines.corfu.sequencing.flows.appending import Appended, Writer, appended
from ithaca.engines.corfu.sequencing.flows.flow import AskRaft, NoAnswer, Pause, Steps
from ithaca.engines.corfu.sequencing.limits import RETRY_MS, WRITERS_MAX
from ithaca.engines.corfu.sequencing.rows import first_position
from ithaca.engines.corfu.sequencing.state import ANONYMOUS
from ithaca.model.errors import Overloaded, SessionFenced
from ithaca.model.records import Durability, Receipt
from ithaca.runtime.machine import new_uuid
from ithaca.wire.batch import Batch


class NumberedWriter:
    """A session's handle and the number of its next record."""

    __slots__ = ("next_seq", "writer")

    def __init__(self, writer: Writer, next_seq: int = 1) -> None:
        self.writer = writer
        self.next_seq = next_seq


class Writers:
    """The anonymous sessions of a handle, made as they are needed."""

    def __init__(self, driver: Driver, durability: Durability) -> None:
        self._driver = driver
        self._durability: Durability = durability
        self._idle: list[NumberedWriter] = []
        self._count = 0
        self._turn = asyncio.Lock()
        self._has_room = asyncio.Event()

    async def append(self, make: Callable[[], Batch]) -> Receipt:
        """Append a batch of no producer, made when it is its turn. Rows are taken in the order of the calls."""
        async with (
            self._turn
        ):  # whoever comes next takes its row later: nothing is awaited until the token is asked for
            writer = await self._acquired()
            batch = make()
        try:
            # A writer that is cancelled, or fails, is never used again: what it had under way may still be completed.
            receipt = await append_as(self._driver, writer, batch, self._durability)
        except BaseException:
            self._count -= 1
            raise
        else:
            self._idle.append(writer)
            return receipt
        finally:
            self._has_room.set()

    async def _acquired(self) -> NumberedWriter:
        while not self._idle and self._count >= WRITERS_MAX:
            self._has_room.clear()
            await self._has_room.wait()
        if self._idle:
            return self._idle.pop(0)
        writer = await opened_writer(self._driver)
        self._count += 1
        return writer


async def opened_writer(driver: Driver) -> NumberedWriter:
    """A new anonymous session."""
    answer = await driver.run(_opened_session(f"{ANONYMOUS}{new_uuid()}"))
    if isinstance(answer, Void):
        raise Overloaded(f"no session can be opened: {answer.reason}")
    driver.knowledge.learn(answer.known)
    return NumberedWriter(Writer(answer.producer, answer.epoch))


def _opened_session(name: str) -> Steps[SessionIs | Void]:
    """A session of a name that nobody else uses: there is nobody to fence."""
    while isinstance(answer := (yield AskRaft(OpenSession(name))), NoAnswer):
        yield Pause(RETRY_MS)
    return answer  # type: ignore[no-any-return]


async def append_as(driver: Driver, writer: NumberedWriter, batch: Batch, durability: Durability) -> Receipt:
    """Append a batch as the next one of a session, which has no other under way."""
    handle = writer.writer
    said = numbered(batch, (handle.producer, handle.epoch, writer.next_seq))
    entry = entry_of(said, 0)
    assert entry.stamp is not None
    found = await driver.run(appended(driver.knowledge, handle, entry.stamp, said))
    if found is None:
        raise SessionFenced("the session was opened again elsewhere; this handle may not append any more")
    writer.next_seq += batch.count
    return receipt_of(driver, found, batch.count, durability)


def receipt_of(driver: Driver, found: Appended, count: int, durability: Durability) -> Receipt:
    return Receipt(first_position(found.row), count, shard_of(driver, found.row), durability)


def shard_of(driver: Driver, row: int) -> int:
    """The set that has a row, by its number in its range: what other engines call the shard."""
    each = driver.knowledge.projection.range_of(row)
    return (row - each.start) % len(each.sets) if each.sets else 0
