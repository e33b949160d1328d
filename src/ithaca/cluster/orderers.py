"""Orderers of a cluster on this machine that are added, removed and replaced while it runs.

As with shards, the directory's file says first what shall be there: a new orderer is written into it, the supervisor
starts it, it waits, and is added. One that goes is removed from the group first, and then from the file, with which
its process ends; its directory stays. Whoever is interrupted in between repeats the call.
"""

import asyncio
import os
import re
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import ithaca.aio
from ithaca.cluster.layout import bootstrap_of, orderers_of
from ithaca.cluster.limits import CLUSTER_START_TIMEOUT_S, CONNECT_TIMEOUT_S
from ithaca.cluster.local import FILE, cluster_file
from ithaca.cluster.ports import LOOPBACK, next_ports
from ithaca.cluster.running import healthy
from ithaca.cluster.shards import (
    append_text,
    listening,
    one_at_a_time,
    replace_text,
    running_supervisor,
    state_of,
)
from ithaca.cluster.supervisor import RELOAD_SIGNAL, Tell
from ithaca.model.config.cluster import ClusterFile, OrdererPlace
from ithaca.model.config.text import dump_orderer
from ithaca.model.errors import ConfigError, DeadlineExceeded, NoSuchOrderer
from ithaca.model.interface import OrdererInfo
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address

_HEADER = re.compile(r"^\s*\[")


def add_local_orderer(directory: Path, progress: Tell, timeout_s: float = CONNECT_TIMEOUT_S) -> int:
    """Add an orderer to the cluster that runs in the directory; returns its number once it votes."""
    cluster_file(directory)
    with one_at_a_time(directory):
        return asyncio.run(_add(directory, progress, timeout_s))


def remove_local_orderer(directory: Path, orderer: int, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
    """Remove an orderer of the cluster that runs in the directory, and end its process."""
    cluster_file(directory)
    with one_at_a_time(directory):
        asyncio.run(_remove(directory, orderer, timeout_s))


def replace_local_orderer(directory: Path, orderer: int, progress: Tell, timeout_s: float = CONNECT_TIMEOUT_S) -> int:
    """Put a new orderer into the place of another, dead or alive; returns its number once it votes."""
    cluster_file(directory)
    with one_at_a_time(directory):
        return asyncio.run(_replace(directory, orderer, progress, timeout_s))


async def _replace(directory: Path, orderer: int, progress: Tell, timeout_s: float) -> int:
    """The new one first: with it there is a majority, if there is one now."""
    file = cluster_file(directory)
    if all(place.server != orderer for place in file.orderers):
        raise NoSuchOrderer(f"there is no orderer {orderer} in {directory / FILE}: ithaca orderer list names them")
    number = await _join(directory, progress, timeout_s)
    await _remove(directory, orderer, timeout_s)
    await _all_well(directory, number, progress)
    return number


async def _add(directory: Path, progress: Tell, timeout_s: float) -> int:
    number = await _join(directory, progress, timeout_s)
    await _all_well(directory, number, progress)
    return number


async def _join(directory: Path, progress: Tell, timeout_s: float) -> int:
    """Start a new one, or go on with one that somebody left, and wait until it votes."""
    pid = running_supervisor(directory)
    file = cluster_file(directory)
    async with ithaca.aio.connect(
        bootstrap_of(file), timeout=timeout_s, tls=file.client_tls, token=file.client_token
    ) as log:
        members = await log.admin.orderers()
        place = await _left_over(file, members)
        if place is None:
            number = _next_number(directory, file, members)
            (port,) = next_ports(1, max(address.port for address in file.addresses()))
            place = OrdererPlace(number, Address(LOOPBACK, port), joining=True)
            append_text(directory / FILE, dump_orderer(place))
        os.kill(pid, RELOAD_SIGNAL)
        await listening([ServerPlace("orderer", place.server, place.address)], file.client_tls, progress)
        progress(f"orderer {place.server} catches up")
        return await log.admin.add_orderer(str(place.address))


async def _all_well(directory: Path, number: int, progress: Tell) -> None:
    try:
        file = cluster_file(directory)
        await asyncio.wait_for(healthy(orderers_of(file), file.client_tls, progress), CLUSTER_START_TIMEOUT_S)
    except TimeoutError:
        raise DeadlineExceeded(f"orderer {number} was added, and not all are well: look at ithaca status") from None


async def _remove(directory: Path, orderer: int, timeout_s: float) -> None:
    pid = running_supervisor(directory)
    file = cluster_file(directory)
    async with ithaca.aio.connect(
        bootstrap_of(file), timeout=timeout_s, tls=file.client_tls, token=file.client_token
    ) as log:
        await log.admin.remove_orderer(orderer)
    if any(place.server == orderer for place in file.orderers):
        remove_orderer_table(directory / FILE, file, orderer)
        os.kill(pid, RELOAD_SIGNAL)


async def _left_over(file: ClusterFile, members: tuple[OrdererInfo, ...]) -> OrdererPlace | None:
    """An orderer of the file that does not vote yet, because somebody was interrupted."""
    voting = {each.orderer for each in members if each.votes}
    for place in file.orderers:
        if place.joining and place.server not in voting and await state_of(place.address, file.client_tls) != "removed":
            return place
    return None


def _next_number(directory: Path, file: ClusterFile, members: tuple[OrdererInfo, ...]) -> int:
    """One that no orderer ever had: the directories of those that were removed are still there."""
    names = [re.fullmatch(r"orderer-([0-9]+)", path.name) for path in directory.iterdir()]
    numbers = [int(name[1]) for name in names if name is not None]
    return max(*numbers, *(place.server for place in file.orderers), *(each.orderer for each in members)) + 1


def remove_orderer_table(path: Path, file: ClusterFile, orderer: int) -> ClusterFile:
    """Take the orderer's table out of the file, at once or not at all; all else that people wrote stays."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    starts = [place for place, line in enumerate(lines) if _HEADER.match(line)] + [len(lines)]
    for start, stop in pairwise(starts):
        if _is_of(orderer, "".join(lines[start:stop])):
            rest = replace(file, orderers=tuple(place for place in file.orderers if place.server != orderer))
            return replace_text(path, "".join(lines[:start] + lines[stop:]), rest)
    raise ConfigError(
        f"take the table of orderer {orderer}, which was removed, out of the file by hand", file=str(path)
    )


def _is_of(orderer: int, table: str) -> bool:
    try:
        found = tomllib.loads(table).get("orderer")
    except tomllib.TOMLDecodeError:
        return False
    return isinstance(found, list) and len(found) == 1 and found[0].get("server") == orderer
