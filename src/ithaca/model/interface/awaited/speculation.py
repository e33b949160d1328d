"""Speculative delivery, awaited: records as soon as they are durable, before the order is final."""

from abc import abstractmethod
from collections.abc import AsyncIterator

from ithaca.model.interface.awaited.records import Closing
from ithaca.model.speculation import SpeculativeEvent
from ithaca.model.units import Duration


class Speculation(Closing, AsyncIterator[SpeculativeEvent]):
    """`Delivered`, `Confirmed` and `Failed` as they come, without end; also a context manager.

    Positions of what is delivered rise, until a `Failed`, behind which they begin again. `Confirmed` never names
    more than what was delivered. `ithaca.speculation` has the loop that applies, publishes and undoes.

    >>> async def shown(speculation: Speculation) -> None:
    ...     async for event in speculation:
    ...         match event:
    ...             case Delivered(record, attempt):
    ...                 print("perhaps", record.position, record.value)
    ...             case Confirmed(up_to):
    ...                 print("for sure, up to", up_to)
    ...             case Failed(after):
    ...                 print("not so, behind", after)
    """

    @property
    @abstractmethod
    def position(self) -> int:
        """Where the next record will be looked for: everything below was delivered, or holds no record."""

    @abstractmethod
    async def take(self, timeout: Duration | None = None) -> list[SpeculativeEvent]:
        """The next events, all that can be had at once; waits up to `timeout` seconds for the first (None: for ever).

        An empty list means that it was closed, or that nothing came in time.
        """

    @abstractmethod
    async def close(self) -> None:
        """Stop: an iteration waiting in another task ends. Idempotent."""
