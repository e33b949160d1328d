"""Shards of a cluster on this machine that are added while it runs.

The directory's file is what the cluster is made of, so a new shard is written there first; the supervisor reads it
again and starts the servers, which wait to be let in; then the shard is registered. Whoever is interrupted in between
repeats the call: a shard that the file has and the cluster has not is completed before another is made.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ithaca.aio
from ithaca.client.asking import ask_status
from ithaca.cluster.certs.local import certify
from ithaca.cluster.layout import bootstrap_of, orderers_of, servers_of
from ithaca.cluster.limits import CLUSTER_START_TIMEOUT_S, CONNECT_TIMEOUT_S
from ithaca.cluster.local import FILE, cluster_file, supervisor_pid
from ithaca.cluster.ports import LOOPBACK, next_ports
from ithaca.cluster.running import healthy
from ithaca.cluster.state import load_state
from ithaca.cluster.supervisor import RELOAD_SIGNAL, Tell
from ithaca.model.config.cluster import ClusterFile, ReplicaPlace, ShardPlace, load_cluster
from ithaca.model.config.text import dump_shard
from ithaca.model.errors import ConfigError, DeadlineExceeded, InvalidInput, IthacaError, Unavailable
from ithaca.model.quorum import shard_f
from ithaca.model.security.tls import TLS
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address

_POLL_S = 0.05


def add_local_shard(
    directory: Path,
    replicas: int | None,
    *,
    masking: bool,
    progress: Tell,
    timeout_s: float = CONNECT_TIMEOUT_S,
) -> int:
    """Add a shard to the cluster that runs in the directory; returns its number once it takes appends."""
    cluster_file(directory)
    with one_at_a_time(directory):
        return asyncio.run(_add(directory, replicas, masking, progress, timeout_s))


async def _add(directory: Path, replicas: int | None, masking: bool, progress: Tell, timeout_s: float) -> int:
    pid = running_supervisor(directory)
    file = cluster_file(directory)
    async with ithaca.aio.connect(
        bootstrap_of(file), timeout=timeout_s, tls=file.client_tls, token=file.client_token
    ) as log:
        registered = {each.shard for each in await log.admin.shards()}
        shard = await _left_over(file, registered)
        if shard is None:
            number = max(registered | {each.shard for each in file.shards}) + 1
            shard = _planned(file, number, replicas or len(file.shards[-1].replicas), masking)
            file = append_shard(directory / FILE, shard)
        os.kill(pid, RELOAD_SIGNAL)
        places = [place for place in servers_of(file) if place.shard == shard.shard]
        await listening(places, file.client_tls, progress)
        await log.admin.add_shard([str(place.address) for place in places], masking=shard.masking, shard=shard.shard)
    try:
        await asyncio.wait_for(healthy(places + orderers_of(file), file.client_tls, progress), CLUSTER_START_TIMEOUT_S)
    except TimeoutError:
        raise DeadlineExceeded(
            f"shard {shard.shard} was added, and is not healthy yet: look at ithaca status"
        ) from None
    return shard.shard


def running_supervisor(directory: Path) -> int:
    """The process that supervises the directory, which is ready to be told of a new file."""
    pid, state = supervisor_pid(directory), load_state(directory)
    if pid is None:
        raise Unavailable(f"no cluster runs in {directory}: start it with ithaca up --dir {directory}")
    if state is None or state.pid != pid:
        raise Unavailable(f"the cluster in {directory} is just being started: try again")
    return pid


async def _left_over(file: ClusterFile, registered: set[int]) -> ShardPlace | None:
    """A shard of the file that was never registered, because somebody was interrupted."""
    for shard in file.shards:
        if shard.shard not in registered:
            states = [await state_of(place.address, file.client_tls) for place in shard.replicas]
            if "reclaimed" not in states:
                return shard
    return None


async def state_of(address: Address, tls: TLS | None) -> str:
    try:
        return str((await ask_status(address, tls)).get("state"))
    except IthacaError:
        return "unreachable"


def _planned(file: ClusterFile, number: int, replicas: int, masking: bool) -> ShardPlace:
    if masking and (replicas < 3 or replicas % 2 == 0):
        raise InvalidInput(f"{replicas} replicas with masking, which works by majority: use 3, 5, 7, ...")
    ports = next_ports(replicas, max(address.port for address in file.addresses()))
    places = tuple(ReplicaPlace(replica, Address(LOOPBACK, port)) for replica, port in enumerate(ports))
    return ShardPlace(number, shard_f(replicas, masking), masking, places)


def append_shard(path: Path, shard: ShardPlace) -> ClusterFile:
    """Write the shard behind what the file says."""
    return append_text(path, dump_shard(shard))


def append_text(path: Path, text: str) -> ClusterFile:
    """Write tables behind what the file says, at once or not at all; what people wrote there stays."""
    return replace_text(path, path.read_text(encoding="utf-8").rstrip("\n") + "\n" + text)


def replace_text(path: Path, text: str, wanted: ClusterFile | None = None) -> ClusterFile:
    """Write this in the place of what the file says, if it is a cluster's file, and the one that is wanted."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8")
    file = load_cluster(new)
    if wanted not in (None, file):
        raise ConfigError("the file cannot be changed as it is written: change it by hand", file=str(path))
    certify(path.parent, file)
    os.replace(new, path)
    return file


async def listening(places: list[ServerPlace], tls: TLS | None, progress: Tell) -> None:
    """Wait until these servers answer."""
    deadline = time.monotonic() + CLUSTER_START_TIMEOUT_S
    for place in places:
        while await state_of(place.address, tls) == "unreachable":
            progress(f"waiting for {place.name}")
            if time.monotonic() > deadline:
                raise DeadlineExceeded(f"{place.name} does not listen at {place.address}: look at ithaca logs")
            await asyncio.sleep(_POLL_S)


@contextmanager
def one_at_a_time(directory: Path) -> Iterator[None]:
    """Whoever comes second waits: two shards of one number would be none."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
