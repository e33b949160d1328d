"""A cluster whose servers an experiment kills and starts as it likes: nobody starts them again behind its back.

```
D/cluster.toml          what the cluster began with; orderers and spares read it
D/spares/cluster.toml   the same and the spare shards; their servers read it
```
"""

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ithaca.bench.measure import Progress
from ithaca.bench.server_processes import ServerProcess, start_server, stop_servers, writes, written_bytes
from ithaca.client.asking import ask_status
from ithaca.cluster.layout import bootstrap_of, servers_of, spares_of
from ithaca.cluster.limits import CLUSTER_START_TIMEOUT_S
from ithaca.cluster.local import FILE
from ithaca.cluster.log_files import log_path
from ithaca.cluster.log_reader import LogReader
from ithaca.cluster.ports import LOOPBACK, free_ports
from ithaca.cluster.running import healthy
from ithaca.cluster.shards import append_shard
from ithaca.cluster.status import cluster_status
from ithaca.cluster.temporary import LAST_WORDS, Shape, shaped, terminations_raised
from ithaca.model.config.cluster import ReplicaPlace, ShardPlace
from ithaca.model.config.text import dump_cluster
from ithaca.model.errors import DeadlineExceeded, IthacaError, Unavailable
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address
from ithaca.runtime.logs import logged_s

Command = Callable[[Path, ServerPlace], list[str] | None]
"""How to run a server of the file in a directory, where that is not the usual way."""
_POLL_S = 0.05


class Servers:
    """The servers of one cluster, each a process of ours, and spare ones that no shard is made of yet."""

    def __init__(self, directory: Path, shape: Shape, command: Command | None = None) -> None:
        self._directory = directory
        self._command = command
        self._spares = directory / "spares"
        self._replicas = shape.replicas
        self._file = shaped(shape, free_ports(shape.orderers + shape.shards * shape.replicas + shape.spares))
        for place in (directory, self._spares):
            place.mkdir(mode=0o700, parents=True)
            (place / FILE).write_text(dump_cluster(self._file), encoding="utf-8")
        self._places = {place.name: place for place in servers_of(self._file)}
        self._unused = spares_of(self._file)
        self._of_file = {*self._places, *(place.name for place in self._unused)}
        self._shard_of: dict[str, int] = {}
        """What spares have become."""
        self._processes: dict[str, ServerProcess] = {}

    @property
    def bootstrap(self) -> str:
        return bootstrap_of(self._file)

    def replicas_of(self, shard: int) -> list[ServerPlace]:
        return [place for name, place in self._places.items() if self._shard_of.get(name, place.shard) == shard]

    # One server

    def start(self, name: str) -> None:
        directory = self._directory if name in self._of_file else self._spares
        place = self._places[name]
        command = None if self._command is None else self._command(directory, place)
        self._processes[name] = start_server(directory, place, self._directory, command)

    def kill(self, name: str) -> None:
        """End it as `kill -9` does; it stays down."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Have it stand still, or go on."""
        self._processes[name].send_signal(number)

    def leader(self) -> str:
        """The orderer that leads."""
        return self._orderers_by_role()[0]

    def follower(self) -> str:
        """An orderer that does not lead."""
        return self._orderers_by_role()[1]

    def _orderers_by_role(self) -> list[str]:
        """Orderers, the one that leads first."""
        orderers = [place for place in self._places.values() if place.role == "orderer"]
        leader = asyncio.run(cluster_status(orderers, None)).leader
        if leader is None:
            raise Unavailable("no orderer leads")
        return sorted((place.name for place in orderers), key=lambda name: name != leader.place.name)

    def written_bytes(self) -> int:
        """What all of them have had the kernel write to the disk."""
        return sum(written_bytes(process) for process in self._processes.values())

    def said_s(self, text: str, since_s: float) -> float | None:
        """When any orderer first logged a line with this text, at this time or later, by the monotonic clock."""
        ahead_s = time.time() - time.monotonic()
        orderers = [place.name for place in self._places.values() if place.role == "orderer"]
        lines = [line for name in orderers for line in log_path(self._directory, name).read_text().splitlines()]
        times = [logged_s(line) - ahead_s for line in lines if text in line]
        return min((at_s for at_s in times if at_s >= since_s), default=None)

    def writes(self) -> int:
        """How often all of them have written to anything."""
        return sum(writes(process) for process in self._processes.values())

    # Shards

    def start_spare(self, progress: Progress) -> int:
        """Start the servers of another shard, which nobody has registered; returns its number."""
        number = 1 + max(place.shard for place in self._places.values() if place.shard is not None)
        addresses = [Address(LOOPBACK, port) for port in free_ports(self._replicas)]
        places = tuple(ReplicaPlace(replica, address) for replica, address in enumerate(addresses))
        file = append_shard(self._spares / FILE, ShardPlace(number, self._replicas - 1, False, places))
        self._places |= {place.name: place for place in servers_of(file) if place.shard == number}
        for place in self.replicas_of(number):
            self.start(place.name)
        progress(f"waiting for the servers of spare shard {number}")
        asyncio.run(_within(_listening(self.replicas_of(number)), f"the servers of spare shard {number} do not listen"))
        return number

    def start_spares(self, progress: Progress) -> None:
        """Start as many spares of the file as a shard has replicas; they wait until the leader needs them."""
        places, self._unused = self._unused[: self._replicas], self._unused[self._replicas :]
        self._places |= {place.name: place for place in places}
        for place in places:
            self.start(place.name)
        progress("waiting for spares")
        asyncio.run(_within(_listening(places), "the spares do not listen"))

    def spares_became(self, shard: int) -> None:
        """The spares that waited are the replicas of this shard now."""
        waiting = [place.name for place in self._places.values() if place.role == "spare"]
        self._shard_of |= {name: shard for name in waiting if name not in self._shard_of}

    def retire(self, shard: int) -> None:
        """Stop the servers of a shard that is not needed any more."""
        names = [place.name for place in self.replicas_of(shard)]
        stop_servers([self._processes.pop(name) for name in names if name in self._processes])
        for name in names:
            del self._places[name]

    # All of them

    def start_all(self, progress: Progress) -> None:
        for name in self._places:
            self.start(name)
        self.wait_healthy(list(self._places), progress)

    def wait_healthy(self, names: Sequence[str], progress: Progress) -> None:
        """Until these and the orderers do all that they are there for."""
        places = [place for name, place in self._places.items() if place.role == "orderer" or name in names]
        newest = ["nothing is known yet"]

        def tell(text: str) -> None:
            if text != newest[-1]:
                newest.append(text)
                progress(text)

        try:
            asyncio.run(_within(healthy(places, None, tell), f"the cluster is not healthy: {newest[-1]}"))
        except DeadlineExceeded as error:
            lines = LogReader(self._directory, None).last(LAST_WORDS)
            last = " | ".join(f"{line.name}: {line.text}" for line in lines)
            raise DeadlineExceeded(f"{error} ({newest[-1]}). The servers' last words: {last}") from error

    def stop_all(self) -> None:
        stop_servers(list(self._processes.values()))
        self._processes = {}


@contextmanager
def experiment_servers(
    directory: Path, shape: Shape, progress: Progress, command: Command | None = None
) -> Iterator[Servers]:
    """A cluster that is healthy, in a directory that is not there yet; stopped at the end, whatever happened."""
    servers = Servers(directory, shape, command)
    with terminations_raised():
        try:
            servers.start_all(progress)
            yield servers
        finally:
            servers.stop_all()


async def _within(work: Coroutine[Any, Any, object], late: str) -> None:
    try:
        await asyncio.wait_for(work, CLUSTER_START_TIMEOUT_S)
    except TimeoutError:
        raise DeadlineExceeded(f"{late} after {CLUSTER_START_TIMEOUT_S:g} s") from None


async def _listening(places: Sequence[ServerPlace]) -> None:
    for place in places:
        while True:
            with suppress(IthacaError):
                await ask_status(place.address, None)
                break
            await asyncio.sleep(_POLL_S)
