"""A cluster for a while: on free ports, in a directory of its own, and gone afterwards with every process.

For measurements and demonstrations. What it is told to do is the same as for any other cluster: a supervisor
in a process of its own, and a process for each server.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from ithaca.cluster.certs.local import secured
from ithaca.cluster.layout import bootstrap_of, local_cluster
from ithaca.cluster.local import FILE, supervisor_pid, take_down
from ithaca.cluster.log_reader import LogReader
from ithaca.cluster.operator_token import with_users
from ithaca.cluster.ports import LOOPBACK, free_ports
from ithaca.cluster.running import changes_only, start_detached
from ithaca.cluster.state import SupervisorState, load_state
from ithaca.cluster.supervisor import Tell
from ithaca.model.config.cluster import ClusterFile, check_founders
from ithaca.model.config.failures import NO_ACTION, FailurePolicy
from ithaca.model.config.text import dump_cluster
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.errors import DeadlineExceeded, Unavailable
from ithaca.model.limits import SEGMENT_BYTES_MAX
from ithaca.model.quorum import shard_f
from ithaca.model.records import Durability
from ithaca.model.security.tls import TLS
from ithaca.model.view import Address

LAST_WORDS = 10
"""Lines of the servers' logs that are told when a start fails."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many servers there are, and how they keep their data."""

    shards: int = 1
    replicas: int = 2
    orderers: int = 3
    durability: Durability = "fsync"
    segment_bytes: int = SEGMENT_BYTES_MAX
    masking: bool = False
    spares: int = 0
    failures: FailurePolicy = NO_ACTION
    aggregators: int = 0
    engine: EngineName = DEFAULT_ENGINE
    tls: bool = False
    users: bool = False
    order_interval_us: int = 0
    """The least time between two cuts; 0: as soon as something moved."""

    @property
    def f(self) -> int:
        """Replicas of a shard that may be lost."""
        return shard_f(self.replicas, self.masking)


@dataclass(frozen=True, slots=True)
class TemporaryCluster:
    """A cluster that is up."""

    directory: Path
    file: ClusterFile

    @property
    def bootstrap(self) -> str:
        return bootstrap_of(self.file)

    @property
    def tls(self) -> TLS | None:
        """What whoever connects needs beside that."""
        return self.file.client_tls

    @property
    def token(self) -> str | None:
        """The operator's token, where the cluster has users and no TLS."""
        return self.file.client_token

    def state(self) -> SupervisorState:
        """What its supervisor says: processes, restarts."""
        state = load_state(self.directory)
        if state is None:
            raise Unavailable(f"nobody supervises {self.directory} any more")
        return state


@contextmanager
def temporary_cluster(directory: Path, shape: Shape, progress: Tell) -> Iterator[TemporaryCluster]:
    """Start a cluster in `directory`, which must not be there yet; stop it at the end, whatever happened.

    A SIGTERM to this process ends the context, as Ctrl-C does, instead of leaving the cluster behind.
    """
    directory.mkdir(mode=0o700, parents=True)
    servers = shape.orderers + shape.shards * shape.replicas + shape.aggregators + shape.spares
    file = shaped(shape, free_ports(servers))
    check_founders(file)
    if shape.tls:
        file = secured(directory, file)
    if shape.users:
        file = with_users(directory, file)
    (directory / FILE).write_text(dump_cluster(file), encoding="utf-8")
    with terminations_raised():
        try:
            _start(directory, progress)
            yield TemporaryCluster(directory, file)
        finally:
            _end(directory)


def shaped(shape: Shape, ports: list[int]) -> ClusterFile:
    """The file of a cluster of this shape on these ports; the last ones are the spares'."""
    members = len(ports) - shape.spares
    file = local_cluster(
        shards=shape.shards,
        replicas=shape.replicas,
        orderers=shape.orderers,
        ports=ports[:members],
        durability=shape.durability,
        aggregators=shape.aggregators,
        engine=shape.engine,
    )
    return replace(
        file,
        segment_bytes=shape.segment_bytes,
        shards=tuple(replace(shard, f=shape.f, masking=shape.masking) for shard in file.shards),
        spares=tuple(Address(LOOPBACK, port) for port in ports[members:]),
        failures=shape.failures,
        order_interval_us=shape.order_interval_us,
    )


def _start(directory: Path, progress: Tell) -> None:
    try:
        start_detached(directory, changes_only(progress))
    except Unavailable as error:  # the logs go with the directory, so their end is told here
        last = " | ".join(f"{line.name}: {line.text}" for line in LogReader(directory, None).last(LAST_WORDS))
        raise Unavailable(f"{error}. The servers' last words: {last}") from error


def _end(directory: Path) -> None:
    pid = supervisor_pid(directory)
    try:
        take_down(directory)
    except DeadlineExceeded:
        if pid is not None:
            os.kill(pid, signal.SIGKILL)  # its servers end with it
        raise
    finally:
        if pid is not None:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)  # it is a child of this process, and must not stay as a zombie


@contextmanager
def terminations_raised() -> Iterator[None]:
    """SIGTERM raises SystemExit, where Python alone would end without another word."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
