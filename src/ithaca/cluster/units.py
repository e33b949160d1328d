"""Storage units of a cluster on this machine that are started while it runs, for engines that have units."""

import asyncio
import os
from pathlib import Path

from ithaca.cluster.layout import spares_of
from ithaca.cluster.local import FILE, cluster_file
from ithaca.cluster.ports import LOOPBACK, next_ports
from ithaca.cluster.shards import append_text, listening, one_at_a_time, running_supervisor
from ithaca.cluster.supervisor import RELOAD_SIGNAL, Tell
from ithaca.model.config.text import dump_place
from ithaca.model.view import Address


def start_units(directory: Path, count: int, progress: Tell) -> list[str]:
    """Start so many units that hold nothing yet, and write them into the directory's file; where they are."""
    cluster_file(directory)
    with one_at_a_time(directory):
        return asyncio.run(_started(directory, count, progress))


async def _started(directory: Path, count: int, progress: Tell) -> list[str]:
    pid, file = running_supervisor(directory), cluster_file(directory)
    ports = next_ports(count, max(address.port for address in file.addresses()))
    file = append_text(directory / FILE, "".join(dump_place("spare", Address(LOOPBACK, port)) for port in ports))
    os.kill(pid, RELOAD_SIGNAL)
    places = spares_of(file)[-count:]
    await listening(places, file.client_tls, progress)
    return [str(place.address) for place in places]
