"""What is opened and closed by its context."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Opening(ABC):
    """Entering opens it, leaving closes it."""

    @abstractmethod
    async def open(self) -> Self:
        """Play the log up to its tail, and follow it from then on."""

    @abstractmethod
    async def close(self) -> None:
        """Follow no more. The log stays open. Idempotent."""

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()
