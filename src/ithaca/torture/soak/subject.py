"""A cluster in a process of its own, told over a pipe what to do."""

import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ithaca.bench.memory import private_memory_bytes
from ithaca.cluster.limits import CLUSTER_START_TIMEOUT_S
from ithaca.cluster.local import FILE
from ithaca.cluster.ports import free_ports
from ithaca.cluster.temporary import Shape, shaped
from ithaca.model.config.text import dump_cluster
from ithaca.model.errors import DeadlineExceeded
from ithaca.model.limits import SEGMENT_BYTES_MIN
from ithaca.model.records import Durability, Retention
from ithaca.model.server_place import ServerPlace
from ithaca.testing import Cluster

REPLICAS = 2
ORDERERS = 3
SEGMENT_BYTES = SEGMENT_BYTES_MIN
KEPT_SEGMENTS = 64
"""Retention: as many segments of a shard are kept."""
_POLL_S = 0.005
_END_S = 30.0


class SubjectDied(Exception):
    """The process of the servers ended, or could not do what it was told."""


class Subject:
    """The cluster, from outside. Its directory must not be there yet."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        shape = Shape(1, REPLICAS, ORDERERS, durability, SEGMENT_BYTES)
        file = shaped(shape, free_ports(REPLICAS + ORDERERS))
        file = replace(file, retention=Retention(None, KEPT_SEGMENTS * SEGMENT_BYTES))
        directory.mkdir(parents=True)
        (directory / FILE).write_text(dump_cluster(file), encoding="utf-8")
        self._directory = directory
        self._durability = durability
        self._restarted = 0

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._directory, self._durability), daemon=True)
        self._process.start()
        theirs.close()
        self.bootstrap: str = self._answer()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._connection.close()  # which ends the process
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def restart_replica(self) -> float:
        """Restart the replicas in turn, killed and stopped in turn; seconds from the start until all is well."""
        self._restarted += 1
        return float(self._ask("restart", self._restarted % REPLICAS, self._restarted // REPLICAS % 2 == 0))

    def change_leader(self) -> None:
        """Kill the leader, wait for another one, and start it again."""
        self._ask("change_leader")

    def collect(self) -> None:
        """Have Python and the C library give back what nobody needs, so that memory is that of what is needed."""
        self._ask("collect")

    @property
    def memory_bytes(self) -> int:
        return private_memory_bytes(self._process.pid)

    @property
    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def _ask(self, *command: object) -> Any:
        self._connection.send(command)
        return self._answer()

    def _answer(self) -> Any:
        try:
            good, answer = self._connection.recv()
        except (EOFError, OSError):
            raise SubjectDied(f"the servers' process ended; its last words are in {self._directory}") from None
        if not good:
            raise SubjectDied(answer)
        return answer


def _serve(connection: Connection, directory: Path, durability: Durability) -> None:
    """The main function of the process; ends with the other end of the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.open(directory / "servers.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    os.close(output)
    with Cluster(directory, replicas=REPLICAS, orderers=ORDERERS, durability=durability) as cluster:
        connection.send((True, cluster.bootstrap))
        servers = _Servers(cluster)
        while True:
            try:
                name, *arguments = connection.recv()
            except (EOFError, OSError):
                return
            try:
                connection.send((True, getattr(servers, name)(*arguments)))
            except Exception as error:
                connection.send((False, f"{name}: {type(error).__name__}: {error}"))


class _Servers:
    """What may be asked for, inside the process."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def restart(self, replica: int, kill: bool) -> float:
        name = f"shard-0-replica-{replica}"
        if kill:
            self._cluster.kill_server(name)
        else:
            self._cluster.stop_server(name)
        started_s = time.perf_counter()
        self._cluster.start_server(name)
        self._wait_well()
        return time.perf_counter() - started_s

    def change_leader(self) -> None:
        former = self._other_leader(None)
        self._cluster.kill_server(former.name)
        self._other_leader(former)
        self._cluster.start_server(former.name)
        self._wait_well()

    def collect(self) -> None:
        gc.collect()
        _give_back_memory()

    def _other_leader(self, former: ServerPlace | None) -> ServerPlace:
        """Wait until an orderer leads that is not this one: on a busy machine the lead changes by itself, too."""
        until_s = time.monotonic() + CLUSTER_START_TIMEOUT_S
        while (leader := self._cluster.status().leader) is None or leader.place == former:
            if time.monotonic() > until_s:
                raise DeadlineExceeded(f"no orderer but {former} led within {CLUSTER_START_TIMEOUT_S:g} s")
            time.sleep(_POLL_S)
        return leader.place

    def _wait_well(self) -> None:
        until_s = time.monotonic() + CLUSTER_START_TIMEOUT_S
        while problems := self._cluster.status().problems():
            if time.monotonic() > until_s:
                raise DeadlineExceeded(f"not well after {CLUSTER_START_TIMEOUT_S:g} s: {problems[0]}")
            time.sleep(_POLL_S)


def _give_back_memory() -> None:
    """Have the C library give back what it keeps for nobody: thousands of starts in one process leave it in pieces."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # other C libraries give it back by themselves
        trim(0)
