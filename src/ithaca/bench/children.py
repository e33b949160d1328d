"""Processes of a measurement: started with a pipe, asked and answered through it, ended with it.

A child runs `target(connection, *arguments)`. What it sends is an answer; a `Failed` says what went wrong.
"""

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ithaca.model.errors import DeadlineExceeded, IthacaError, Unavailable

STOP_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 120.0
"""A child that says nothing for so long after its work should be done has failed."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A child could not do what it was asked to."""

    why: str


@dataclass(frozen=True, slots=True)
class Child:
    """A process and our end of its pipe."""

    name: str
    process: BaseProcess
    connection: Connection

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def ask(self, message: object) -> None:
        self.connection.send(message)

    def answer(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """What the child says next; `Unavailable` when it failed or is gone."""
        if not self.connection.poll(timeout_s):
            raise DeadlineExceeded(f"{self.name} said nothing for {timeout_s:.0f} s")
        try:
            answer = self.connection.recv()
        except EOFError:
            self.process.join(STOP_TIMEOUT_S)
            raise Unavailable(f"{self.name} ended with status {self.process.exitcode}") from None
        if isinstance(answer, Failed):
            raise Unavailable(f"{self.name} failed: {answer.why}")
        return answer


def start_child(stack: ExitStack, name: str, target: Callable[..., None], *arguments: object) -> Child:
    """Run the target in a process of its own until the stack is left."""
    spawn = multiprocessing.get_context("spawn")  # a fork would take the progress display's threads along
    resource_tracker.ensure_running()  # its first start would lift the mask below
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_run, args=(theirs, target, arguments), name=name, daemon=True)
    # Ctrl-C reaches the whole group; a process born with the signal blocked leaves it to us.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
        stack.callback(_stop, process, ours)
    finally:
        theirs.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    return Child(name, process, ours)


def wait_for_any(children: Sequence[Child], timeout_s: float) -> bool:
    """Whether a child has something to say, waiting up to `timeout_s` for it."""
    return bool(wait([child.connection for child in children], timeout_s))


def _run(parent: Connection, target: Callable[..., None], arguments: tuple[object, ...]) -> None:
    try:
        target(parent, *arguments)
    except Exception as error:  # those of client libraries have no common type
        with suppress(OSError):  # whoever asked is gone, which is how most children learn that they should end
            parent.send(Failed(reason(error)))


def reason(error: BaseException) -> str:
    """What went wrong, for a report. An error of another library is told with its type and its place.

    >>> reason(Unavailable("the broker is gone"))
    'the broker is gone'
    >>> reason(KeyError("acks"))
    "KeyError: 'acks'"
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    kind = type(error).__name__
    if isinstance(error, (IthacaError, OSError)):
        return str(error) or kind
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{kind}: {error}{place}" if str(error) else f"{kind}{place}"


def _stop(process: BaseProcess, connection: Connection) -> None:
    connection.close()
    process.join(STOP_TIMEOUT_S)
    if process.is_alive():
        process.kill()
        process.join()
