"""A demo's processes from the outside: start them, hear them, kill one, leave none behind."""

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

STALL_S = 60.0
"""If no process says anything for so long, the demo gives up."""
STOP_S = 5.0
"""How long a process may take to end before it is killed."""


class DemoFailed(Exception):
    """A claim did not hold; the message says what differs."""


class Ready(NamedTuple):
    """A process says that it is connected; it goes on when it is told to."""


class Actor(NamedTuple):
    """A process and our end of its pipe."""

    process: BaseProcess
    connection: Connection


class Cast:
    """The running processes by name; leaving the context ends them all."""

    def __init__(self) -> None:
        self._actors: dict[str, Actor] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for actor in self._actors.values():
            actor.connection.close()
            actor.process.terminate()
        for actor in self._actors.values():
            actor.process.join(STOP_S)
            if actor.process.is_alive():
                actor.process.kill()
                actor.process.join()

    def start(self, name: str, target: Callable[..., None], *arguments: object) -> None:
        """Run `target(connection, *arguments)` in a process of its own."""
        spawn = multiprocessing.get_context("spawn")  # a fork would take the display's threads along
        resource_tracker.ensure_running()  # its first start would lift the mask below
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=target, args=(theirs, *arguments), name=name, daemon=True)
        with _signals_held():
            # Ctrl-C reaches the whole group; a process born with the signal blocked leaves it to us.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                process.start()
                self._actors[name] = Actor(process, ours)
            finally:
                theirs.close()
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def tell(self, name: str, message: object) -> None:
        """Say something to a process, which it hears when it listens."""
        self._actors[name].connection.send(message)

    def messages(self) -> Iterator[tuple[str, Any]]:
        """What the processes say, as they say it; it is for the caller to know when to stop listening."""
        while self._actors:
            names = {actor.connection: name for name, actor in self._actors.items()}
            heard = wait(list(names), timeout=STALL_S)
            if not heard:
                raise DemoFailed(f"no process said anything for {STALL_S:.0f} s")
            for connection in heard:
                assert isinstance(connection, Connection)
                try:
                    message = connection.recv()
                except EOFError:
                    self._retire(names[connection])
                else:
                    yield names[connection], message
        raise DemoFailed("every process ended before its work was done")

    def _retire(self, name: str) -> None:
        process, connection = self._actors.pop(name)
        connection.close()
        process.join()
        if process.exitcode != 0:
            raise DemoFailed(f"the {name} ended with exit status {process.exitcode}")

    def kill(self, name: str) -> Iterator[Any]:
        """SIGKILL; then what the process still managed to say."""
        process, connection = self._actors.pop(name)
        process.kill()
        process.join()
        with connection:
            try:
                while True:
                    message = connection.recv()
                    yield message
            except EOFError:
                return


@contextmanager
def _signals_held() -> Iterator[None]:
    """A signal that comes meanwhile is heeded at the end: in the midst of a start, the new process would read half of
    what it is to do. Blocking does not hold it back, since any thread of ours may take it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: held.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in held:
            signal.raise_signal(each)


def is_running(pid: int) -> bool:
    """Whether there is such a process; one that only waits to be reaped has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
