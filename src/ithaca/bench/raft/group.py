"""Three servers of a variant as processes of a measurement: killed, started again, and looked at."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ithaca
from ithaca.bench.measure import Progress
from ithaca.bench.server_processes import ServerProcess, start_server, stop_servers, written_bytes
from ithaca.cluster.layout import bootstrap_of, local_cluster, orderers_of
from ithaca.cluster.ports import free_ports
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.config.text import dump_cluster
from ithaca.model.server_place import ServerPlace

SERVERS = 3
SETTLE_PAUSE_S = 0.05


class Group:
    """The servers, by number."""

    def __init__(self, directory: Path, variant: str, file: ClusterFile) -> None:
        self.bootstrap = bootstrap_of(file)
        self._directory = directory
        self._variant = variant
        self._places = {place.number: place for place in orderers_of(file)}
        self._processes: dict[int, ServerProcess] = {}
        for number in self._places:
            self.start(number)

    def start(self, number: int) -> None:
        place = self._places[number]
        self._processes[number] = start_server(self._directory, place, self._directory, self._command(place))

    def _command(self, place: ServerPlace) -> list[str]:
        config, data = self._directory / "cluster.toml", self._directory / place.name
        module = "ithaca.bench.raft.serving"
        return [sys.executable, "-m", module, str(config), str(place.number), str(data), self._variant]

    def kill(self, number: int) -> None:
        self._processes[number].kill()
        self._processes[number].wait()

    @contextmanager
    def stopped(self, number: int) -> Iterator[None]:
        """Have a server do nothing for a while."""
        self._processes[number].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._processes[number].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        stop_servers(list(self._processes.values()))

    def leader(self) -> int:
        with ithaca.connect(self.bootstrap) as log:
            return next(each.orderer for each in log.admin.orderers() if each.leads)

    def tails(self) -> dict[int, int]:
        """What each server that answers knows to be agreed on."""
        with ithaca.connect(self.bootstrap) as log:
            return {int(each["server"]): int(each["tail"]) for each in log.status().servers if "tail" in each}

    def settled_tail(self) -> int:
        """The tail, once all servers have everything."""
        while len(tails := self.tails()) < len(self._places) or len(set(tails.values())) > 1:
            time.sleep(SETTLE_PAUSE_S)
        return next(iter(tails.values()))

    def written_bytes(self) -> int:
        """What all servers have had the kernel write to the disk."""
        return sum(written_bytes(process) for process in self._processes.values())


@contextmanager
def running_group(directory: Path, variant: str, progress: Progress) -> Iterator[Group]:
    """Servers of a variant in a directory of their own, until they lead and take appends; stopped at the end."""
    progress(f"starting {SERVERS} servers: {variant}")
    directory.mkdir(parents=True)
    ports = free_ports(SERVERS)
    file = local_cluster(shards=0, replicas=0, orderers=SERVERS, ports=ports, durability="fsync", engine="raft")
    (directory / "cluster.toml").write_text(dump_cluster(file))
    group = Group(directory, variant, file)
    try:
        with ithaca.connect(group.bootstrap, timeout=60) as log:
            log.append(b"ready")
            group.settled_tail()
        yield group
    finally:
        group.stop()
