"""The process of one server: its loop, its signals, its exit status, and that it does not outlive who started it.

| status | means                                                                   |
|--------|-------------------------------------------------------------------------|
| 0      | stopped because it was asked to (SIGTERM, SIGINT)                       |
| 3      | fenced: a sync failed, so the server must not be started again in place |
| 1      | anything else                                                           |
"""

import asyncio
import ctypes
import errno
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

import uvloop

from ithaca.model.errors import Fenced, IthacaError
from ithaca.model.view import Address
from ithaca.runtime.logs import setup_logging

CLEAN: Final = 0
FAILED: Final = 1
FENCED: Final = 3

SUPERVISOR: Final = "ITHACA_SUPERVISOR"
"""The variable in which a supervisor tells its process id: a server that has it ends with the supervisor."""
SWITCH_INTERVAL_S: Final = 0.0001
"""Beside a busy thread, a sync takes 5 ms instead of 0.2 with the interpreter's default (design §9)."""

_PR_SET_PDEATHSIG: Final = 1
_log = logging.getLogger("ithaca.process")


class Server(Protocol):
    """What every role offers; `status` is what `GetStatus` answers, and can be written as JSON."""

    @property
    def address(self) -> Address: ...

    async def start(self) -> None:
        """Returns when the server listens."""

    async def stop(self) -> None:
        """End cleanly; idempotent, and possible in the middle of a start."""

    async def wait(self) -> None:
        """Until the server has stopped; raises what made it fail."""

    def status(self) -> dict[str, Any]: ...


def run_server(make: Callable[[], Server], role: str, name: str) -> int:
    """Run one server until it is asked to stop or fails; returns the exit status.

    `make` is called in the loop; `role` and `name` are what the server's log lines say.
    """
    setup_logging(role, name)
    die_with_supervisor()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        uvloop.run(serve(make))
    except Exception as error:
        return status_of(error)
    return CLEAN


def status_of(error: Exception) -> int:
    """The exit status of a server that this has ended; it is said in the log.

    A disk that cannot read or write makes no difference between a sync and anything else: whatever the server was
    doing, it may have been a sync that failed.
    """
    if isinstance(error, Fenced) or _is_of_a_failing_disk(error) or _is_of_a_failing_disk(error.__cause__):
        _log.critical("fenced, and not to be started again in place: %s", error)
        return FENCED
    if isinstance(error, IthacaError | OSError):
        _log.critical("%s", error)
    else:
        _log.critical("failed", exc_info=error)
    return FAILED


def _is_of_a_failing_disk(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EIO


async def serve(make: Callable[[], Server]) -> None:
    """Run a server until a signal asks it to stop; raises what made it fail."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _ask, asked)
    server = make()
    asking = asyncio.create_task(asked.wait())
    try:
        if await _finished(asyncio.create_task(server.start()), asking):
            await _finished(asyncio.create_task(server.wait()), asking)
    except Exception:
        try:
            await server.stop()
        except Exception as error:
            _log.exception("stopping failed, too")
            if isinstance(error, Fenced):
                raise
        raise  # what failed first decides the exit status, unless a sync failed: such a server must not start again
    finally:
        asking.cancel()
    await server.stop()
    _log.info("stopped")


def _ask(asked: asyncio.Event) -> None:
    if asked.is_set():  # asked twice: whoever asks has no patience left, and a kill loses nothing either
        os._exit(FAILED)
    asked.set()


async def _finished(work: asyncio.Task[None], asking: asyncio.Task[Any]) -> bool:
    """Wait for the work, and raise what it raised; False when it was given up because the server shall stop."""
    await asyncio.wait({work, asking}, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        work.result()
        return True
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
    return False


def die_with_supervisor() -> None:
    """Have the kernel kill this process when its supervisor ends, however that happens. Linux only.

    Without a supervisor nothing is done: a server that was started by hand may outlive its shell.
    """
    supervisor = os.environ.get(SUPERVISOR)
    if supervisor is None or not sys.platform.startswith("linux"):
        return
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        _log.warning("this server may outlive its supervisor: %s", os.strerror(ctypes.get_errno()))
    if os.getppid() != int(supervisor):  # it ended before the kernel was asked
        os._exit(FAILED)
