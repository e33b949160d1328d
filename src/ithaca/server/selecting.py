"""What a filter selects of batches. As soon as it is too much for one delivery, what is there is said."""

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from ithaca.model.limits import DELIVER_BYTES_MAX
from ithaca.model.records import Buffer, KeyFilter
from ithaca.runtime.connection import Connection
from ithaca.server.filtering import Filtering
from ithaca.wire.batch import Batch
from ithaca.wire.selection import Within

Item = TypeVar("Item")


class Rows(NamedTuple, Generic[Item]):
    """The rows `[low, high)` of the batch at this position, and how a delivery names some of them.

    `item` is called with the position, the first row, the one behind the last, and, where a filter has selected some,
    their rows as `<u4`.
    """

    batch: Batch
    position: int
    low: int
    high: int
    item: Callable[[int, int, int, bytes | None], Item]


class Selecting(Generic[Item]):
    """The filter of one subscription."""

    def __init__(
        self,
        filtering: Filtering,
        where: KeyFilter | Within,
        connection: Connection,
        say: Callable[[list[Item], list[Buffer], int], None],
    ) -> None:
        """`say` delivers these, and everything below this position."""
        self._filtering = filtering
        self._where = where
        self._connection = connection
        self._say = say

    async def select(self, found: Iterable[Rows[Item]]) -> tuple[list[Item], list[Buffer]]:
        """What is selected and was not said yet."""
        items: list[Item] = []
        payload: list[Buffer] = []
        size = 0
        for batch, position, low, high, item in found:
            while selected := await self._filtering.select(batch, low, high, self._where):
                chosen, rows, stop = selected
                if items and size + chosen.total_bytes > DELIVER_BYTES_MAX:
                    self._say(items, payload, position + low)
                    items, payload, size = [], [], 0
                    if not self._connection.is_writable:
                        del selected, chosen  # whoever waits keeps as little as possible, and selects it again
                        await self._connection.drained()
                        continue
                if rows is None:
                    items.append(item(position, low, high, None))
                else:
                    items.append(item(position, 0, chosen.count, rows.astype("<u4").tobytes()))
                payload += chosen.buffers()
                size += chosen.total_bytes
                low = stop
        return items, payload
