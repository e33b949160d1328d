"""Going to another server only once somebody answers there: who is told to move loses nothing by trying."""

import asyncio
import logging
from collections.abc import Callable

from ithaca.model.errors import IthacaError
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import Said, dial

_log = logging.getLogger("ithaca.order")


class Move:
    """One attempt to move at a time."""

    def __init__(self, hello: Callable[[], Said]) -> None:
        self._hello = hello
        self._task: asyncio.Task[None] | None = None

    def consider(self, to: Address, go: Callable[[], None]) -> None:
        """Call `go` if somebody answers at that address; what is told meanwhile is told again."""
        if self._task is None:
            self._task = asyncio.create_task(self._try(to, go))

    def stop(self) -> None:
        """Forget it: the link that was to be moved has ended."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _try(self, to: Address, go: Callable[[], None]) -> None:
        try:
            connection = await dial(to, self._hello(), self)
        except IthacaError as error:
            _log.info("%s is assigned, and does not serve, so that all stays as it is: %s", to, error)
            self._task = None
            return
        connection.abort()
        self._task = None
        go()

    def on_message(self, connection: Connection, received: Received) -> None:
        """Nothing is asked, so nothing is said."""

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        """It was only to see whether somebody is there."""
