"""What every client has: a history of its own, an ear for the run, a handle on the cluster.

A client goes on through every error that a program may meet while servers fail: those that say that the call may be
repeated, or that its outcome is unknown. Any other error is a finding, and ends the client with it.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import uvloop

import ithaca.aio
from ithaca.model.errors import IthacaError
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.security.tls import TLS
from ithaca.proof.history import HistoryWriter

TIMEOUT_S = 120.0
"""Of calls whose outcome a client wants to know, however long the cluster takes to heal."""
RETRY_S = 0.1
T = TypeVar("T")
TELL_S = 0.5
CALLS = ".calls"


@dataclass(frozen=True, slots=True)
class Proof:
    """How somebody proves who it is. None: as the environment says, which is the operator's way."""

    tls: TLS | None = None
    token: str | None = None


@dataclass(frozen=True, slots=True)
class Errand:
    """Who a client is, and where it finds what."""

    name: str
    number: int
    life: int
    """Counts the times that it was started."""
    bootstrap: str
    histories: Path
    seed: int
    rate: float
    """Records per second that a producer aims at."""
    writes: bool = False
    """Whether a consumer writes a record for each that it takes, in one transaction with its commit."""
    proof: Proof = Proof()
    revoked: Proof = Proof()
    """How somebody would prove it who is no user any more."""

    def history(self, life: int | None = None) -> Path:
        """One file per life: the last line of a life that was killed may be torn."""
        return self.histories / f"{self.name}.{self.life if life is None else life}.jsonl"

    def calls(self) -> Path:
        """Of a client that is never killed in a run: its calls, for a run that ends before they are answered."""
        return self.histories / f"{self.name}.{self.life}{CALLS}"


@dataclass(frozen=True, slots=True)
class Finish:
    """Producers: append nothing more. Readers: see everything below `tail`, then end."""

    tail: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """So many records of this client are acknowledged, or were seen."""

    records: int


class Client:
    """The inside of a client's process."""

    def __init__(self, connection: Connection, errand: Errand) -> None:
        self.errand = errand
        self.history = HistoryWriter(errand.history())
        self.finish: Finish | None = None
        self.records = 0
        self._connection = connection
        self._told_s = 0.0

    @property
    def is_finishing(self) -> bool:
        return self.finish is not None

    def listen(self) -> None:
        """Hear what the run says, from the loop."""
        asyncio.get_running_loop().add_reader(self._connection.fileno(), self._hear)

    def _hear(self) -> None:
        try:
            self.finish = self._connection.recv()
        except (EOFError, OSError):  # the run is gone, and nobody wants to know any more
            os._exit(1)

    def count(self, records: int) -> None:
        """Tell the run, now and then, how much was done."""
        self.records += records
        if time.monotonic() - self._told_s > TELL_S:
            self._told_s = time.monotonic()
            with suppress(BlockingIOError):  # the run does not listen now: what is said next includes this
                self._connection.send(Progress(self.records))

    async def connected(self) -> ClusterLog:
        """A handle, as soon as there is somebody to connect to."""
        return await patient(lambda: self.connect(self.errand.proof, TIMEOUT_S))

    async def connect(self, proof: Proof, timeout: float) -> ClusterLog:
        """A handle of whoever can prove this."""
        return await ithaca.aio.connect(self.errand.bootstrap, timeout=timeout, tls=proof.tls, token=proof.token)

    def close(self) -> None:
        self.history.close()
        os.set_blocking(self._connection.fileno(), True)  # which the loop had changed
        self._connection.send(Progress(self.records))


Behave = Callable[[Client], Awaitable[None]]


def run_client(connection: Connection, errand: Errand, log: Path, behave: Behave) -> None:
    """The main function of a client's process; what it prints goes to `log`."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    client = Client(connection, errand)

    async def main() -> None:
        client.listen()
        await behave(client)

    uvloop.run(main())
    client.close()


def passes(error: IthacaError) -> bool:
    """Whether an error is one of those that come while servers fail."""
    return error.retry or error.outcome_unknown


async def patient(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call that may be repeated until it succeeds."""
    while True:
        try:
            return await call()
        except IthacaError as error:
            if not passes(error):
                raise
        await asyncio.sleep(RETRY_S)
