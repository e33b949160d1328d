"""The clients of a run, from outside: started, killed and started again, heard, and told to finish."""

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ithaca.torture.clients import (
    consumers,
    outsider,
    plain_producer,
    publisher,
    readers,
    session_producer,
    speculator,
)
from ithaca.torture.clients.client import CALLS, TIMEOUT_S, Behave, Errand, Finish, Progress, Proof, run_client
from ithaca.torture.cluster_under_test import POLL_S
from ithaca.torture.people import CONSUMING, REVOKED

FINISH_S = TIMEOUT_S + 60.0
"""How long a client may take to finish what it has begun."""
BEGIN_S = 60.0
"""How long a client may take until it has done something."""
STOP_S = 5.0

ROLES: Mapping[str, Behave] = {
    "producer": session_producer.produce,
    "plain": plain_producer.produce,
    "publisher": publisher.publish,
    "follower": readers.follow,
    "parts": readers.follow_parts,
    "prober": readers.probe,
    "speculator": speculator.speculate,
    "outsider": outsider.intrude,
    "consumer": consumers.consume,
    "member": consumers.take_part,
}
PRODUCING = ("producer", "plain", "publisher")
READING = tuple(role for role in ROLES if role not in (*PRODUCING, *CONSUMING))


class ClientFailed(Exception):
    """A client met something that no fault explains, or did not finish."""


@dataclass(frozen=True, slots=True)
class Cast:
    """How many clients of each kind there are, and how much all producers together append per second."""

    producers: int = 3
    plain: int = 1
    rate: float = 3000.0
    publishers: int = 1
    speculators: int = 0
    """Where the engine delivers records before their places are final."""
    outsiders: int = 0
    """Those who do what they may not, in a cluster that has users."""
    consumers: int = 1
    members: int = 3
    """Of one group."""
    writes: bool = True
    """Whether those that consume write a record for each that they take, with their commit; a group, for even seeds."""

    def names(self) -> list[str]:
        """Each client's role and number within it."""
        producing = [f"producer-{number}" for number in range(1, self.producers + 1)]
        producing += [f"plain-{number}" for number in range(1, self.plain + 1)]
        publishing = [f"publisher-{number}" for number in range(1, self.publishers + 1)]
        speculating = [f"speculator-{number}" for number in range(1, self.speculators + 1)]
        outside = [f"outsider-{number}" for number in range(1, self.outsiders + 1)]
        reading = ["follower-1", "parts-1", "prober-1", *speculating]
        return [*producing, *reading, *publishing, *self.consuming(), *outside]

    def consuming(self) -> list[str]:
        """Those that consume."""
        consumers = [f"consumer-{number}" for number in range(1, self.consumers + 1)]
        return [*consumers, *(f"member-{number}" for number in range(1, self.members + 1))]


class _Actor(NamedTuple):
    errand: Errand
    process: BaseProcess
    connection: Connection


class Crowd:
    """The processes by name; leaving the context ends them all."""

    def __init__(self, directory: Path, bootstrap: str, seed: int, cast: Cast) -> None:
        self._directory = directory
        self._cast = cast
        self._actors: dict[str, _Actor] = {}
        self._records: dict[str, int] = {}
        rate = cast.rate / (cast.producers + cast.plain)
        writing = () if not cast.writes else CONSUMING if seed % 2 == 0 else ("consumer",)
        self._errands = [
            Errand(name, number, 0, bootstrap, directory, seed, rate, _role(name) in writing)
            for number, name in enumerate(cast.names(), 1)
        ]

    def start(self, proofs: Mapping[str, Proof] = MappingProxyType({})) -> None:
        """Start all, who prove who they are by these; those who are not among them need not."""
        self._directory.mkdir()
        for errand in self._errands:
            own, revoked = proofs.get(errand.name, Proof()), proofs.get(REVOKED, Proof())
            self._start(replace(errand, proof=own, revoked=revoked))

    def _start(self, errand: Errand) -> None:
        spawn = multiprocessing.get_context("spawn")
        resource_tracker.ensure_running()  # its first start would lift the mask below
        ours, theirs = spawn.Pipe()
        log = self._directory / f"{errand.name}.log"
        behave = ROLES[_role(errand.name)]
        process = spawn.Process(target=run_client, args=(theirs, errand, log, behave), name=errand.name, daemon=True)
        # Ctrl-C reaches the whole group; a process born with the signal blocked leaves it to us.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self._actors[errand.name] = _Actor(errand, process, ours)

    @property
    def acknowledged(self) -> int:
        """Records that producers have told of, so far."""
        self._hear()
        return sum(count for name, count in self._records.items() if _role(name) in PRODUCING)

    def _hear(self) -> None:
        for actor in self._actors.values():
            try:
                while actor.connection.poll():
                    line = actor.connection.recv()
                    if isinstance(line, Progress):
                        self._records[_life(actor.errand)] = line.records
            except (EOFError, OSError):
                pass  # it has ended, which `check` and `finish` look at

    def check(self) -> None:
        """`ClientFailed` when one has ended by itself."""
        self._hear()
        for name, actor in self._actors.items():
            if actor.process.exitcode not in (None, 0):
                raise ClientFailed(f"{name} ended with status {actor.process.exitcode}: {self._last_words(name)}")

    async def begun(self) -> None:
        """Wait until every client has done something in its present life."""
        await self._begun(list(self._actors))

    async def _begun(self, names: list[str]) -> None:
        deadline = time.monotonic() + BEGIN_S
        while left := [name for name in names if not self._records.get(_life(self._actors[name].errand))]:
            self.check()
            if time.monotonic() > deadline:
                raise ClientFailed(f"{', '.join(left)} did nothing for {BEGIN_S:.0f} s")
            await asyncio.sleep(POLL_S)

    async def kill(self, name: str) -> int:
        """SIGKILL to a client in the middle of what it does, and start it again under its name."""
        await self._begun([name])
        actor = self._actors[name]
        pid = actor.process.pid
        assert pid is not None
        actor.process.kill()
        actor.process.join()
        actor.connection.close()
        self._start(replace(actor.errand, life=actor.errand.life + 1))
        return pid

    async def pause(self, name: str, seconds: float) -> int:
        """SIGSTOP to a client, and SIGCONT after so long; its process id."""
        await self._begun([name])
        pid = self._actors[name].process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)
        return pid

    async def finish(self, roles: Collection[str], tail: int = 0) -> None:
        """Have those of these roles end, once they have seen everything below `tail`; wait until they have."""
        wanted = {name: actor for name, actor in self._actors.items() if _role(name) in roles}
        for name, actor in wanted.items():
            try:
                actor.connection.send(Finish(tail))
            except OSError:
                raise ClientFailed(f"{name} is gone: {self._last_words(name)}") from None
        deadline = time.monotonic() + FINISH_S
        while left := [name for name, actor in wanted.items() if actor.process.exitcode is None]:
            self.check()
            if time.monotonic() > deadline:
                raise ClientFailed(f"{', '.join(left)} did not finish within {FINISH_S:.0f} s")
            await asyncio.sleep(POLL_S)
        self.check()

    def close(self) -> None:
        """End whoever is left."""
        for actor in self._actors.values():
            actor.connection.close()
            actor.process.kill()
        for actor in self._actors.values():
            actor.process.join(STOP_S)

    def histories(self, *, with_calls: bool) -> list[Path]:
        """What the clients have written; `with_calls`: also what some asked and may not have been told any more."""
        calls = self._directory.glob(f"*{CALLS}") if with_calls else ()
        return sorted([*self._directory.glob("*.jsonl"), *calls])

    def _last_words(self, name: str) -> str:
        line = (self._directory / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return line[-1] if line else "it says nothing"


def _life(errand: Errand) -> str:
    return f"{errand.name}.{errand.life}"


def _role(name: str) -> str:
    """
    >>> _role("producer-2.1")
    'producer'
    """
    return name.partition("-")[0]
