"""The ordering layer of an emulation: real orderers and aggregators, each a process, without any storage server."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ithaca.bench.emulation.shards import REPLICAS
from ithaca.bench.server_processes import ServerProcess, cpu_s, start_server, stop_servers
from ithaca.client.asking import ask_status
from ithaca.cluster.layout import local_cluster, servers_of
from ithaca.cluster.limits import CLUSTER_START_TIMEOUT_S
from ithaca.cluster.local import FILE
from ithaca.cluster.log_files import log_path
from ithaca.cluster.ports import free_ports
from ithaca.engines import registry
from ithaca.engines.emulation import Emulation
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.config.failures import FailurePolicy
from ithaca.model.config.text import dump_cluster
from ithaca.model.limits import DETECTION_MS_MAX
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address

ATTACHED_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class OrderingLayer:
    """Running orderers, and aggregators if there are any."""

    directory: Path
    file: ClusterFile
    processes: dict[Address, ServerProcess]
    """The orderers."""
    aggregators: dict[Address, ServerProcess]

    @property
    def orderers(self) -> int:
        return len(self.processes)

    def cpu_s(self) -> dict[Address, float]:
        """The CPU that each orderer has used so far."""
        return {address: cpu_s(process.pid) for address, process in self.processes.items()}

    def aggregators_cpu_s(self) -> float:
        """The CPU that all aggregators together have used so far."""
        return sum(cpu_s(process.pid) for process in self.aggregators.values())

    def pid(self, address: Address) -> int:
        return self.processes[address].pid

    @property
    def emulation(self) -> Emulation:
        return registry.engine(self.file.engine).emulation()

    async def register(self, shards: int) -> Address:
        """Have this many shards in the order, numbered from 0; returns who leads."""
        return await self.emulation.register(tuple(self.processes), shards, REPLICAS, CLUSTER_START_TIMEOUT_S)

    async def tail(self) -> int:
        return await self.emulation.tail(tuple(self.processes), CLUSTER_START_TIMEOUT_S)

    async def await_aggregators(self, leader: Address) -> None:
        """Wait until all of them have attached."""
        async with asyncio.timeout(CLUSTER_START_TIMEOUT_S):
            while len((await ask_status(leader, None))["aggregators"]) < len(self.aggregators):  # noqa: ASYNC110
                await asyncio.sleep(ATTACHED_POLL_S)


@contextmanager
def ordering_layer(
    directory: Path, orderers: int, order_interval_us: int, aggregators: int = 0
) -> Iterator[OrderingLayer]:
    """Start the servers in `directory`, which must not be there yet; stop them at the end, whatever happened."""
    directory.mkdir(mode=0o700, parents=True)
    ports = free_ports(orderers + REPLICAS + aggregators)
    file = local_cluster(
        shards=1, replicas=REPLICAS, orderers=orderers, ports=ports, durability="fsync", aggregators=aggregators
    )
    # Replicas that are slow to join are not dead, however long it takes on a busy machine: who waits for them gives up.
    failures = FailurePolicy(detection_ms=DETECTION_MS_MAX)
    file = replace(file, order_interval_us=order_interval_us, failures=failures)
    (directory / FILE).write_text(dump_cluster(file), encoding="utf-8")
    started: dict[str, dict[Address, ServerProcess]] = {"orderer": {}, "aggregator": {}}
    try:
        for place in _places(file):
            started[place.role][place.address] = start_server(directory, place, directory)
        yield OrderingLayer(directory, file, started["orderer"], started["aggregator"])
    finally:
        stop_servers([process for processes in started.values() for process in processes.values()])


def _places(file: ClusterFile) -> list[ServerPlace]:
    """Every server but the replicas, which are emulated."""
    return [place for place in servers_of(file) if place.role != "replica"]


def last_words(layer: OrderingLayer, lines: int = 5) -> str:
    """The end of every server's log."""
    names = [place.name for place in _places(layer.file)]
    said = (log_path(layer.directory, name).read_text(errors="replace").splitlines()[-lines:] for name in names)
    return " | ".join(line for each in said for line in each)
