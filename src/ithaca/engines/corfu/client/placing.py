"""Writing at positions of the user's own choice."""

import asyncio

from ithaca.client.appending.outgoing import numbered
from ithaca.client.fetched import trimmed
from ithaca.engines.corfu.client.driving import Driver
from ithaca.engines.corfu.client.writers import NumberedWriter, opened_writer, shard_of
from ithaca.engines.corfu.sequencing.calls import TailReply
from ithaca.engines.corfu.sequencing.entries import Entry, entry_of
from ithaca.engines.corfu.sequencing.flows.placing import placed_at
from ithaca.engines.corfu.sequencing.flows.settling import RowState
from ithaca.engines.corfu.sequencing.limits import ROW_MAX, ROW_POSITIONS, WRITE_AHEAD_ROWS
from ithaca.engines.corfu.sequencing.rows import first_position, row_of
from ithaca.model.errors import EmptyPosition, InvalidInput, PositionTaken
from ithaca.model.records import Durability, Receipt
from ithaca.runtime.checks import check_position
from ithaca.wire.batch import Batch
from ithaca.wire.repeats import same_records


class Placer:
    """The writes of one handle. They have one anonymous session: where a batch is, its row says, and nobody retries it
    elsewhere."""

    def __init__(self, driver: Driver, durability: Durability) -> None:
        self._driver = driver
        self._durability: Durability = durability
        self._writer: NumberedWriter | None = None
        self._opening = asyncio.Lock()

    async def write(self, row: int, batch: Batch) -> Receipt:
        """Have the batch in this row; raises what keeps it out."""
        driver = self._driver
        async with self._opening:
            if self._writer is None:
                self._writer = await opened_writer(driver)
        handle, seq = self._writer.writer, self._writer.next_seq
        self._writer.next_seq += batch.count
        said = numbered(batch, (handle.producer, handle.epoch, seq))
        stamp = entry_of(said, 0).stamp
        assert stamp is not None
        found = await driver.run(placed_at(driver.knowledge, row, stamp, said))
        is_there = isinstance(found, Entry) and (
            found.stamp == stamp or (found.batch is not None and same_records(found.batch, batch))
        )
        if not is_there:
            raise self._refusal(row, found)
        return Receipt(first_position(row), batch.count, shard_of(driver, row), self._durability)

    def _refusal(self, row: int, found: RowState | TailReply) -> Exception:
        position, projection = first_position(row), self._driver.knowledge.projection
        if isinstance(found, TailReply):
            tail = first_position(found.row)
            if not projection.sequencer:
                return InvalidInput(f"cannot write at {position}: without a sequencer only the tail, {tail}, is next")
            return InvalidInput(
                f"cannot write at {position}: that is {WRITE_AHEAD_ROWS} appends or more beyond the tail, {tail}"
            )
        if found == "trimmed":
            return trimmed(position, max(self._driver.knowledge.first, first_position(row + 1)))
        if found == "empty" or (isinstance(found, Entry) and found.is_junk):
            return EmptyPosition(f"position {position} was filled, and holds no record for ever: choose a later one")
        if found == "unwritten":
            return PositionTaken(f"position {position} was handed out to somebody who may write it: choose a later one")
        return PositionTaken(f"position {position} holds other records: choose a later one")


def checked_row(position: int) -> int:
    """The row that begins with this position; `InvalidInput` if none does."""
    check_position(position)
    row = row_of(position)
    if position != first_position(row) or row >= ROW_MAX:
        raise InvalidInput(
            f"no append can begin at {position}: use 1 or {ROW_POSITIONS} more each time, such as "
            f"{first_position(min(row, ROW_MAX - 1))}"
        )
    return row
