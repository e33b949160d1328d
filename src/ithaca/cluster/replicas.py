"""Replicas of a cluster on this machine that are removed, added and replaced while it runs.

A new replica is a spare: one that waits, or one that is written into the directory's file and started by the
supervisor. A replica that was removed is written there, too, so that its server is stopped and stays so. Whoever is
interrupted repeats the call.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import ithaca.aio
from ithaca.client.asking import ask_status
from ithaca.cluster.layout import bootstrap_of, spares_of
from ithaca.cluster.limits import CONNECT_TIMEOUT_S
from ithaca.cluster.local import FILE, cluster_file
from ithaca.cluster.ports import LOOPBACK, next_ports
from ithaca.cluster.shards import append_text, listening, one_at_a_time, running_supervisor
from ithaca.cluster.supervisor import RELOAD_SIGNAL, Tell
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.config.text import dump_place
from ithaca.model.errors import InvalidInput, IthacaError
from ithaca.model.interface.awaited import Admin
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address

T = TypeVar("T")


def add_local_replica(directory: Path, shard: int, progress: Tell, timeout_s: float = CONNECT_TIMEOUT_S) -> int:
    """Add a replica to a shard that is short of one, or finalized; returns its number."""

    async def add(admin: Admin) -> int:
        spare = await _spare(directory, progress)
        progress(f"{spare.name} copies shard {shard}")
        return await admin.add_replica(shard, str(spare.address))

    return _changed(directory, add, timeout_s)


def remove_local_replica(
    directory: Path, shard: int, replica: int, *, force: bool = False, timeout_s: float = CONNECT_TIMEOUT_S
) -> None:
    """Remove a replica, and stop its server."""

    async def remove(admin: Admin) -> None:
        address = await _address(cluster_file(directory), shard, replica)
        await admin.remove_replica(shard, replica, force=force)
        _leave_out(directory, address)

    _changed(directory, remove, timeout_s)


def replace_local_replica(
    directory: Path, shard: int, replica: int, progress: Tell, timeout_s: float = CONNECT_TIMEOUT_S
) -> int:
    """Put a new replica into the place of another, whose server is stopped; returns its number."""

    async def replace(admin: Admin) -> int:
        address = await _address(cluster_file(directory), shard, replica)
        spare = await _spare(directory, progress)
        progress(f"{spare.name} copies shard {shard}")
        number = await admin.replace_replica(shard, replica, str(spare.address))
        _leave_out(directory, address)
        return number

    return _changed(directory, replace, timeout_s)


def _changed(directory: Path, change: Callable[[Admin], Awaitable[T]], timeout_s: float) -> T:
    """Carry out a change of the cluster that runs in the directory, one at a time."""
    file = cluster_file(directory)
    running_supervisor(directory)

    async def run() -> T:
        async with ithaca.aio.connect(
            bootstrap_of(file), timeout=timeout_s, tls=file.client_tls, token=file.client_token
        ) as log:
            return await change(log.admin)

    with one_at_a_time(directory):
        return asyncio.run(run())


async def _spare(directory: Path, progress: Tell) -> ServerPlace:
    """A spare of the directory that waits, or a new one."""
    file = cluster_file(directory)
    for place in spares_of(file):
        with suppress(IthacaError):
            if (await ask_status(place.address, file.client_tls)).get("state") == "waiting":
                return place
    (port,) = next_ports(1, max(address.port for address in file.addresses()))
    file = append_text(directory / FILE, dump_place("spare", Address(LOOPBACK, port)))
    os.kill(running_supervisor(directory), RELOAD_SIGNAL)
    place = spares_of(file)[-1]
    await listening([place], file.client_tls, progress)
    return place


async def _address(file: ClusterFile, shard: int, replica: int) -> Address:
    """Where the replica is, or was, as the file says or as the spares say of themselves."""
    with suppress(InvalidInput):
        return file.replica(shard, replica).address
    for place in spares_of(file):
        with suppress(IthacaError):
            said = await ask_status(place.address, file.client_tls)
            if (said.get("shard"), said.get("replica")) == (shard, replica):
                return place.address
    raise InvalidInput(
        f"no server of this directory says that it is replica {replica} of shard {shard}: is it running?"
    )


def _leave_out(directory: Path, address: Address) -> None:
    """Have the supervisor stop the server at this address, and never start it again."""
    if address not in cluster_file(directory).removed:
        append_text(directory / FILE, dump_place("removed", address))
    os.kill(running_supervisor(directory), RELOAD_SIGNAL)
