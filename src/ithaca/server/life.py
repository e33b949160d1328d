"""The life of a server: a directory that is its own, a port, a start that fails cleanly, and an end."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry

from ithaca.model.errors import IthacaError
from ithaca.model.view import Address
from ithaca.runtime.listener import Accept, HttpAnswer, Listener, listen
from ithaca.server.greeter import Greeter
from ithaca.server.status import answer_http
from ithaca.server.users.gate import UserGate
from ithaca.storage.directory_lock import take_lock
from ithaca.storage.disk import Disk, OsDisk, OsFile


def lock_directory(disk: Disk, directory: str) -> OsFile | None:
    """Make the directory, and keep other processes out of it until the lock is closed; `LogInUse` if one is in it.

    None for a simulated disk, which belongs to whoever made it.
    """
    disk.make_directory(directory)
    return take_lock(disk, directory, "stop that server first") if isinstance(disk, OsDisk) else None


class LivingServer(ABC):
    """A `process.Server` that begins in `_start` and ends in `stop`."""

    def __init__(self, listen_at: Address) -> None:
        self._listen_at = listen_at
        self._lock: OsFile | None = None
        self._listener: Listener | None = None
        self._ended = asyncio.Event()
        self._error: Exception | None = None

    @property
    def address(self) -> Address:
        return self._listen_at if self._listener is None else self._listener.address

    async def start(self) -> None:
        """Returns when the server listens, and takes part."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def wait(self) -> None:
        """Until the server has stopped; raises what made it fail."""
        await self._ended.wait()
        if self._error is not None:
            raise self._error

    def failed(self, error: Exception) -> None:
        """The server cannot go on."""
        self._error = error
        self._ended.set()

    @abstractmethod
    async def _start(self) -> None:
        """Recover the disk, listen, and begin to take part; what it raises ends in `stop`."""

    @abstractmethod
    async def stop(self) -> None:
        """End cleanly; idempotent, and possible in the middle of a start."""

    @abstractmethod
    def status(self) -> dict[str, Any]: ...

    # For `_start` and `stop`

    async def _listen(
        self,
        greeter: Greeter,
        accept: Accept,
        registry: CollectorRegistry | None = None,
        on_refused: Callable[[IthacaError], None] | None = None,
        gate: UserGate | None = None,
    ) -> Listener:
        """Take connections and HTTP requests from now on, with the metrics of this registry."""
        greeter.check_users(gate)
        audit = greeter.audit() if gate is None or gate.audit is None else gate.audit

        def http(path: str) -> HttpAnswer | None:
            return answer_http(path, lambda: greeter.told(self.status()), registry)

        self._listener = await listen(
            self._listen_at,
            accept=accept,
            welcome=greeter.welcome,
            http=http,
            on_refused=on_refused,
            guard=greeter.guard,
            audit=audit,
            gate=gate,
        )
        return self._listener

    async def _close_listener(self) -> None:
        if self._listener is not None:
            await self._listener.close()

    def _end(self) -> None:
        """Let go of the directory; nobody need wait any more."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        self._ended.set()
