"""The directory of a cluster on this machine: made once, then started as it is, by one supervisor at a time."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from ithaca.cluster import log_files, state
from ithaca.cluster.certs.local import DIRECTORY as TLS_DIRECTORY
from ithaca.cluster.certs.local import certify, secured
from ithaca.cluster.layout import has_shards, local_cluster, serve_command, servers_of, spares_of, usual_shard
from ithaca.cluster.limits import SERVER_STOP_TIMEOUT_S
from ithaca.cluster.operator_token import with_users
from ithaca.cluster.ports import refuse_taken
from ithaca.cluster.supervisor import Program
from ithaca.engines import registry
from ithaca.model.addresses import is_loopback
from ithaca.model.arguments import choice
from ithaca.model.config.cluster import ClusterFile, load_cluster
from ithaca.model.config.text import dump_cluster
from ithaca.model.config.users import SECRET
from ithaca.model.engine import DEFAULT_ENGINE, EngineName, Feature
from ithaca.model.errors import DeadlineExceeded, InvalidInput, NoSuchLog
from ithaca.model.limits import SEGMENT_BYTES_MIN
from ithaca.model.records import Durability, Retention
from ithaca.storage import directory_lock
from ithaca.storage.directory_lock import is_locked, take_lock
from ithaca.storage.disk import OsDisk

FILE = "cluster.toml"
STOP_SLACK_S = 10.0
"""How much longer than its servers a supervisor may take to stop."""
_STOP_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a cluster shall be like; what is None is left to the directory or, in a new one, to the default."""

    shards: int | None = None
    replicas: int | None = None
    orderers: int | None = None
    port: int | None = None
    durability: Durability | None = None
    aggregators: int | None = None
    engine: EngineName | None = None
    masking: bool | None = None
    retention_age_s: float | None = None
    retention_bytes: int | None = None
    """Of a shard, on each of its replicas."""
    tls: bool | None = None
    users: bool | None = None

    @property
    def retention(self) -> Retention | None:
        if self.retention_age_s is None and self.retention_bytes is None:
            return None
        return Retention(self.retention_age_s, self.retention_bytes)


SHARDS = 2
ORDERERS = 3
PORT = 7600
DURABILITY: Durability = "fsync"


def cluster_file(directory: Path) -> ClusterFile:
    """The cluster of a directory; `NoSuchLog` when there is none."""
    if not (directory / FILE).exists():
        raise NoSuchLog(f"there is no cluster in {directory}: make one with ithaca up --dir {directory}")
    return load_cluster(directory / FILE)


@contextmanager
def locked_cluster(directory: Path, wanted: Wanted) -> Iterator[ClusterFile]:
    """Lock the directory and make the cluster unless it is there; every port is free when this returns."""
    _refuse_foreign(directory)
    if not (directory / FILE).exists():
        refuse_taken(_new_cluster(wanted).addresses())  # before anything is left behind
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = take_lock(OsDisk(), str(directory), f"stop it with ithaca down --dir {directory}")
    try:
        if (directory / FILE).exists():
            file = load_cluster(directory / FILE)
            refuse_difference(directory, file, wanted)
            _refuse_other_retention(directory, file, wanted)
            _refuse_exposed(directory, file)
            registry.check(file)
            certify(directory, file)
            refuse_taken(file.addresses())
        else:
            file = _new_cluster(wanted)
            refuse_taken(file.addresses())
            if wanted.tls:
                file = secured(directory, file)
            if wanted.users:
                file = with_users(directory, file)
            new = directory / f"{FILE}.new"
            new.write_text(dump_cluster(file), encoding="utf-8")
            os.replace(new, directory / FILE)
        yield file
    finally:
        lock.close()


def _refuse_exposed(directory: Path, file: ClusterFile) -> None:
    for address in file.addresses():
        if not is_loopback(address):
            raise InvalidInput(
                f"{directory / FILE} has {address}, which is not of this machine alone: start such a cluster with "
                "ithaca serve, once per server"
            )


def programs_of(directory: Path, file: ClusterFile) -> list[Program]:
    """What a supervisor of this cluster runs."""
    return [Program(place.name, serve_command(directory, place)) for place in servers_of(file) + spares_of(file)]


def _refuse_foreign(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise InvalidInput(f"{directory} is a file, not a directory")
    if not directory.exists() or (directory / FILE).exists():
        return
    ours = {FILE + ".new", directory_lock.NAME, log_files.DIRECTORY, state.NAME, state.NAME + ".new", TLS_DIRECTORY}
    ours.add(SECRET)
    foreign = sorted(each.name for each in directory.iterdir() if each.name not in ours)
    if foreign:
        raise InvalidInput(
            f"{directory} holds no cluster, and is not empty ({foreign[0]} is in it): choose another directory"
        )


def _new_cluster(wanted: Wanted) -> ClusterFile:
    engine = wanted.engine or DEFAULT_ENGINE
    if has_shards(engine):
        usual = usual_shard(engine)
        shards, replicas, orderers = (
            wanted.shards or SHARDS,
            wanted.replicas or usual.replicas,
            wanted.orderers or ORDERERS,
        )
        is_usual = wanted.replicas is None and wanted.masking is None
        masking = usual.masking if is_usual else bool(wanted.masking)
    else:
        if wanted.shards is not None or wanted.aggregators is not None:
            raise InvalidInput(f"the engine {engine} has neither shards nor aggregators: leave them out")
        shards, replicas, orderers = 0, 0, wanted.orderers or wanted.replicas or ORDERERS
        masking = False
    if wanted.aggregators and Feature.AGGREGATORS not in registry.engine(engine).features:
        raise InvalidInput(f"the engine {engine} has no aggregators: leave them out")
    port = wanted.port or PORT
    durability = wanted.durability or DURABILITY
    aggregators = wanted.aggregators or 0
    count = orderers + shards * replicas + aggregators
    if orderers % 2 == 0:
        raise InvalidInput(
            f"{orderers} orderers survive no more failures than {orderers - 1}: use {orderers - 1} or {orderers + 1}"
        )
    if masking and (replicas < 3 or replicas % 2 == 0):
        raise InvalidInput(f"masking works by majority, and there are {replicas} replicas: use --replicas 3, 5, 7, ...")
    choice(durability, "durability", get_args(Durability))
    if port + count > 65536:
        raise InvalidInput(f"{count} servers need ports {port} to {port + count - 1}, and 65535 is the last")
    ports = list(range(port, port + count))
    return local_cluster(
        shards=shards,
        replicas=replicas,
        orderers=orderers,
        ports=ports,
        durability=durability,
        aggregators=aggregators,
        engine=engine,
        masking=masking,
        retention=_checked_retention(wanted.retention),
    )


def _checked_retention(kept: Retention | None) -> Retention | None:
    """What a cluster's file can say: whole seconds, and at least a segment."""
    if kept is not None and kept.age is not None and kept.age.total_seconds() < 1:
        raise InvalidInput(f"--retention-age is {kept.age.total_seconds():g} s: use at least 1s")
    if kept is not None and kept.bytes is not None and kept.bytes < SEGMENT_BYTES_MIN:
        raise InvalidInput(f"--retention-bytes is {kept.bytes}: use at least {SEGMENT_BYTES_MIN}")
    return kept


def refuse_difference(directory: Path, file: ClusterFile, wanted: Wanted) -> None:
    """`InvalidInput` says in what the cluster that is there differs from what is asked for."""
    of_shards = [
        ("shards", str(len(file.shards)), wanted.shards),
        ("replicas", ", ".join(sorted({str(len(shard.replicas)) for shard in file.shards})), wanted.replicas),
    ]
    if not has_shards(file.engine):  # all its servers are orderers, and replicas another word for them
        of_shards = [("replicas", str(len(file.orderers)), wanted.orderers or wanted.replicas)]
    for option, there, asked in [
        *of_shards,
        ("orderers", str(len(file.orderers)), wanted.orderers),
        ("port", str(min(address.port for address in file.addresses())), wanted.port),
        ("durability", file.durability, wanted.durability),
        ("aggregators", str(len(file.aggregators)), wanted.aggregators),
        ("engine", file.engine, wanted.engine),
        ("masking", str(all(shard.masking for shard in file.shards)), wanted.masking),
        ("tls", str(file.tls is not None), wanted.tls),
        ("users", str(file.users is not None), wanted.users),
    ]:
        if asked is not None and str(asked) != there:
            raise InvalidInput(
                f"the cluster in {directory} was made with --{option} {there}, not {asked}: leave --{option} out to "
                "start it as it is, or make another one in another --dir"
            )


def _refuse_other_retention(directory: Path, file: ClusterFile, wanted: Wanted) -> None:
    if wanted.retention not in (None, file.retention):
        raise InvalidInput(
            f"{directory / FILE} says otherwise how much is kept: change [retention] there, leave the options out, and "
            "restart the cluster"
        )


def supervisor_pid(directory: Path) -> int | None:
    """The process that supervises the directory now, if there is one."""
    if not is_locked(OsDisk(), str(directory)):
        return None
    said = (directory / directory_lock.NAME).read_bytes()
    return int(said) if said.isdigit() else None


def take_down(directory: Path) -> bool:
    """Stop the cluster and wait until it has gone; False when none was running."""
    cluster_file(directory)
    pid = supervisor_pid(directory)
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + SERVER_STOP_TIMEOUT_S + STOP_SLACK_S
    while supervisor_pid(directory) == pid or _is_running(pid):  # it gives up its lock a moment before it ends
        if time.monotonic() > deadline:
            raise DeadlineExceeded(f"process {pid} still supervises {directory}: end it with kill -9 {pid}")
        time.sleep(_STOP_POLL_S)
    return True


def _is_running(pid: int) -> bool:
    """Whether the process is there, and more than a zombie that its parent has not looked after yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
