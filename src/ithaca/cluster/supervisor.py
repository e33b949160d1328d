"""Keeps a set of programs running: starts them, starts them again when they die, stops them all.

Others may be added and dismissed while it runs, with a signal (`RELOAD_SIGNAL`).
A child that dies is started again after a pause, doubled each time (`cluster.limits.RESTART_PAUSE_S_MIN` and `_MAX`);
one that ran for a while starts over with the shortest pause. A child that ends with status 3 has fenced
itself and stays down. Children print to files of their own and have sessions of their own, so that a Ctrl-C
reaches the supervisor alone; they end with it, whatever ends it (`server.process.die_with_supervisor`).
"""

import asyncio
import os
import signal
import time
from asyncio.subprocess import DEVNULL, STDOUT, Process, create_subprocess_exec
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ithaca.cluster.limits import RESTART_FORGET_S, RESTART_PAUSE_S_MAX, RESTART_PAUSE_S_MIN, SERVER_STOP_TIMEOUT_S
from ithaca.cluster.log_files import log_path, open_log, put_aside
from ithaca.cluster.state import NAME as STATE_FILE
from ithaca.cluster.state import ChildPhase, ChildState, SupervisorState, save_state
from ithaca.model.errors import IthacaError
from ithaca.runtime.backoff import Backoff
from ithaca.server.process import FAILED, FENCED, SUPERVISOR

LOG_CHECK_S = 1.0
"""How often the sizes of logs are looked at."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
RELOAD_SIGNAL = signal.SIGUSR1
"""Has a supervisor look again what it is to run."""

Tell = Callable[[str], object]
"""To be told, in a sentence, what happens to a child."""


@dataclass(frozen=True, slots=True)
class Program:
    """What a child runs."""

    name: str
    command: Sequence[str]


@dataclass(slots=True)
class _Child:
    program: Program
    state: ChildState
    process: Process | None = None
    is_dismissed: bool = False
    """Whether it is not to be run any more."""
    backoff: Backoff = field(default_factory=lambda: Backoff(RESTART_PAUSE_S_MIN, RESTART_PAUSE_S_MAX))

    def pause_s(self, ran_s: float) -> float:
        """How long to wait before the next start, after a run of so long."""
        if ran_s >= RESTART_FORGET_S:
            self.backoff.reset()
        return self.backoff.next_s()

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal, if there is one.

        Not by its own methods: those look first whether it has ended, and then nobody else learns its status.
        """
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)


class Supervisor:
    """The children of one directory, which the caller has locked."""

    def __init__(
        self,
        directory: Path,
        programs: Sequence[Program],
        tell: Tell,
        *,
        reread: Callable[[], Sequence[Program]] | None = None,
    ) -> None:
        """`reread`: what is to be run now, asked for after `RELOAD_SIGNAL`; programs that are new are started, those
        that are missing are stopped."""
        self._directory = directory
        self._reread = reread
        self._keepers: list[asyncio.Task[None]] = []
        self._tell = tell
        self._children = [_Child(program, ChildState(program.name)) for program in programs]
        self._since_us = _now_us()
        self._asked = asyncio.Event()

    def ask_to_stop(self) -> None:
        """Stop every child; asked again, kill them."""
        if self._asked.is_set():
            self._kill()
        self._asked.set()

    async def run(self) -> None:
        """Until a signal asks to stop, or `ask_to_stop`; no child is left when this returns."""
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self.ask_to_stop)
        if self._reread is not None:
            loop.add_signal_handler(RELOAD_SIGNAL, self._reload)
        self._keepers = [asyncio.create_task(self._keep_or_give_up(child)) for child in self._children]
        rotating = asyncio.create_task(self._rotate_logs())
        try:
            await self._asked.wait()
        finally:
            self._asked.set()
            rotating.cancel()
            await self._stop(self._keepers)
            for number in (*STOP_SIGNALS, RELOAD_SIGNAL):
                loop.remove_signal_handler(number)

    def _reload(self) -> None:
        assert self._reread is not None
        if self._asked.is_set():
            return
        try:
            programs = self._reread()
        except (IthacaError, OSError) as error:
            self._tell(f"what is to be run cannot be read, and stays as it is: {error}")
            return
        wanted = {program.name for program in programs}
        for child in list(self._children):
            if child.program.name not in wanted and not child.is_dismissed:
                self._dismiss(child)
        known = {child.program.name for child in self._children if not child.is_dismissed}
        for program in programs:
            if program.name not in known:
                self._tell(f"{program.name} is new, and is started")
                child = _Child(program, ChildState(program.name))
                self._children.append(child)
                self._keepers.append(asyncio.create_task(self._keep_or_give_up(child)))

    def _dismiss(self, child: _Child) -> None:
        self._tell(f"{child.program.name} is not wanted any more, and is stopped")
        child.is_dismissed = True
        if child.state.phase == "fenced":  # nobody keeps it any more
            self._children.remove(child)
            self._enter(child, "stopped")
        elif child.process is not None:
            child.signal(signal.SIGTERM)
            asyncio.get_running_loop().call_later(SERVER_STOP_TIMEOUT_S, child.signal, signal.SIGKILL)

    async def _keep_or_give_up(self, child: _Child) -> None:
        try:
            await self._keep(child)
        except BaseException:  # a bug of ours, or cancelled: nobody looks after this child any more
            self._asked.set()
            raise

    async def _keep(self, child: _Child) -> None:
        """Run one child again and again, until it is asked to stop or fences itself."""
        while not self._asked.is_set() and not child.is_dismissed:
            started = time.monotonic()
            status = await self._run_once(child)
            child.process, child.state.pid, child.state.status = None, None, status
            if self._asked.is_set() or child.is_dismissed:
                break
            if status == FENCED:
                self._enter(child, "fenced")
                self._tell(
                    f"{child.program.name} has fenced itself: a sync failed, so its disk cannot be trusted. It stays "
                    "down; what was acknowledged is safe on the other replicas"
                )
                return
            pause_s = child.pause_s(time.monotonic() - started)
            child.state.restarts += 1
            self._enter(child, "waiting")
            self._tell(f"{child.program.name} ended ({describe_status(status)}); it is started again in {pause_s:g} s")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), pause_s)
        if child.is_dismissed:
            self._children.remove(child)
        self._enter(child, "stopped")

    async def _run_once(self, child: _Child) -> int:
        """Start the child and wait for its end; returns its exit status."""
        try:
            child.process = await self._start(child.program)
        except OSError as error:
            self._tell(f"{child.program.name} cannot be started: {error}")
            return FAILED
        child.state.pid = child.process.pid
        self._enter(child, "running")
        if self._asked.is_set() or child.is_dismissed:  # while it was being started: it was not told to stop
            child.signal(signal.SIGTERM)
        return await child.process.wait()

    async def _start(self, program: Program) -> Process:
        output = open_log(self._directory, program.name)
        try:
            return await create_subprocess_exec(
                *program.command,
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                env=os.environ | {SUPERVISOR: str(os.getpid())},
                start_new_session=True,
            )
        finally:
            os.close(output)

    def _enter(self, child: _Child, phase: ChildPhase) -> None:
        child.state.phase, child.state.since_us = phase, _now_us()
        self._save()

    def _save(self) -> None:
        state = SupervisorState(os.getpid(), self._since_us, [child.state for child in self._children])
        try:
            save_state(self._directory, state)
        except OSError as error:  # a full disk must not take the servers down
            self._tell(f"{STATE_FILE} is out of date: {error}")

    async def _stop(self, keepers: list[asyncio.Task[None]]) -> None:
        for child in self._children:
            child.signal(signal.SIGTERM)
        _, left = await asyncio.wait(keepers, timeout=SERVER_STOP_TIMEOUT_S)
        if left:
            self._kill()
            await asyncio.wait(keepers)
        await asyncio.gather(*keepers)

    def _kill(self) -> None:
        for child in self._children:
            child.signal(signal.SIGKILL)

    async def _rotate_logs(self) -> None:
        while True:
            await asyncio.sleep(LOG_CHECK_S)
            for child in self._children:
                try:
                    put_aside(log_path(self._directory, child.program.name))
                except OSError as error:
                    self._tell(f"the log of {child.program.name} keeps growing: {error}")


def describe_status(status: int) -> str:
    """An exit status in words.

    >>> describe_status(-9), describe_status(1)
    ('killed by SIGKILL', 'status 1')
    """
    return f"status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"


def _now_us() -> int:
    return time.time_ns() // 1000
