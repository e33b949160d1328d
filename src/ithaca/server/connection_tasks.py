"""What has to wait on behalf of a connection: tasks that end with it, so many at the most."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ithaca.model.errors import IthacaError, Overloaded, Unavailable
from ithaca.model.limits import CONNECTION_TASKS_MAX
from ithaca.protocol.codec import Received
from ithaca.runtime.connection import Connection


class ConnectionTasks:
    """The tasks of one connection."""

    def __init__(
        self, who: str, log: logging.Logger, on_failure: Callable[[IthacaError], object] = lambda _: None
    ) -> None:
        """`who` answers, in words; `on_failure` is told what requests failed with."""
        self._who = who
        self._log = log
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[None], None] = {}

    def start(self, connection: Connection, received: Received, work: Callable[[], Awaitable[None]]) -> None:
        """Run what has to wait; its failure is the request's answer. If the connection ends first, nothing is begun."""
        if len(self._tasks) >= CONNECTION_TASKS_MAX:
            raise Overloaded(f"{CONNECTION_TASKS_MAX} requests of this connection wait already: await some first")
        task = asyncio.create_task(self._run(connection, received, work))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def fail(self, connection: Connection, received: Received, error: IthacaError) -> None:
        """A request has failed, whether it had to wait or not."""
        self._on_failure(error)
        connection.fail(received, error)

    async def _run(self, connection: Connection, received: Received, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except IthacaError as error:
            self.fail(connection, received, error)
        except Exception as error:
            self._log.exception("answering %s failed", type(received.message).__name__)
            connection.fail(received, Unavailable(f"the {self._who} failed to answer: {error}"))

    def cancel(self) -> None:
        """The connection has ended."""
        for task in self._tasks:
            task.cancel()
