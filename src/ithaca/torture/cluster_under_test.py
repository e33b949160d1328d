"""The cluster under test: its directory, its keeper, and how it is.

```
RUN/cluster/cluster.toml      what the servers read: the addresses are those of the proxies
RUN/cluster/programs.json     what the keeper runs
RUN/cluster/lock, supervisor.json, logs/
RUN/cluster/NAME.env          sourced before the server NAME starts, if it is there
RUN/data/NAME/                a server's data; or RUN/data/NAME/disk/server/, with a disk of its own
```
"""

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ithaca.cluster.certs.local import secured
from ithaca.cluster.layout import bootstrap_of, serve_command, servers_of, spares_of
from ithaca.cluster.limits import SERVER_STOP_TIMEOUT_S
from ithaca.cluster.log_files import open_log
from ithaca.cluster.operator_token import with_users
from ithaca.cluster.ports import free_ports
from ithaca.cluster.running import SUPERVISOR_LOG
from ithaca.cluster.state import ChildState, load_state
from ithaca.cluster.status import ClusterStatus, cluster_status
from ithaca.cluster.supervisor import Program
from ithaca.cluster.temporary import Shape, shaped
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.config.text import dump_cluster
from ithaca.model.health import ServerStatus
from ithaca.model.limits import MIB
from ithaca.model.security.tls import VARIABLES
from ithaca.model.security.token import TOKEN_FILE
from ithaca.model.server_place import ServerPlace
from ithaca.server.process import SUPERVISOR
from ithaca.torture.keeper import save_programs

SEGMENT_BYTES = 2 * MIB
"""Small, so that segments are rolled, trimmed and written over in a short run."""
HEAL_S = 60.0
"""A cluster that nothing torments any more is healthy within this time."""
POLL_S = 0.1

_LAUNCH = 'if [ -f "$0" ]; then . "$0"; fi; exec "$@"'


class NotHealed(Exception):
    """The cluster was left alone, and did not become healthy."""


class ClusterUnderTest:
    """One cluster. All of it happens in the main thread: the keeper ends with the thread that started it."""

    def __init__(self, directory: Path, shape: Shape, servers: Mapping[str, Path]) -> None:
        """`servers` says where each server keeps its data."""
        self.directory = directory
        self.shape = shape
        self.data = dict(servers)
        count = _count(shape)
        ports = free_ports(2 * count)
        self.file = _file(shape, ports[:count])
        private = _file(shape, ports[count:])
        self.places = {place.name: place for place in servers_of(private) + spares_of(private)}
        """The servers, and where they really listen."""
        public = servers_of(self.file) + spares_of(self.file)
        self.routes = {place.name: (place.address, self.places[place.name].address) for place in public}
        self._unused = [place.name for place in spares_of(private)]
        self.stand_ins: dict[str, str] = {}
        """The spares that have taken the place of another server, or are struck in its place: see `Finalize`."""
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """What clients connect to."""
        return bootstrap_of(self.file)

    def make(self) -> None:
        """Write the files."""
        self.directory.mkdir(mode=0o700)
        if self.shape.tls:
            self.file = secured(self.directory, self.file)
            assert self.file.client_tls is not None
            # Clients are processes of their own, and this one asks, too: all of them learn it by the environment.
            os.environ.update(zip(VARIABLES, self.file.client_tls.files, strict=True))
        if self.shape.users:
            self.file = with_users(self.directory, self.file)
            if self.file.users is not None and not self.file.are_servers_certified:
                os.environ[TOKEN_FILE] = self.file.users.secret_path
        (self.directory / "cluster.toml").write_text(dump_cluster(self.file), encoding="utf-8")
        save_programs(self.directory, [self._program(place) for place in self.places.values()])

    def _program(self, place: ServerPlace) -> Program:
        known_as = replace(place, address=self.routes[place.name][0])  # what a spare is told; others look it up
        command = serve_command(self.directory, known_as)
        command[command.index("--dir") + 1] = str(self.data[place.name])
        command += ["--listen", str(place.address)]
        return Program(place.name, ["sh", "-c", _LAUNCH, str(self._env_path(place.name)), *command])

    # Life

    def start(self) -> None:
        """Start the keeper, which starts the servers."""
        assert self._keeper is None
        output = open_log(self.directory, SUPERVISOR_LOG)
        try:
            self._keeper = subprocess.Popen(
                [sys.executable, "-P", "-m", "ithaca.torture.keeper", str(self.directory)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | {SUPERVISOR: str(os.getpid())},
                start_new_session=True,
            )
        finally:
            os.close(output)

    async def stop(self) -> None:
        """Ask every server to stop, and wait until all are gone."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        keeper.terminate()
        try:
            await self._ended(keeper, 2 * SERVER_STOP_TIMEOUT_S)
        except TimeoutError:
            keeper.kill()
            keeper.wait()
            raise NotHealed("the servers did not stop when they were asked to") from None

    async def kill(self) -> list[int]:
        """SIGKILL to every process at once, the keeper first, so that it restarts none; who was killed."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return []
        pids = [keeper.pid, *(child.pid for child in self.children().values() if child.pid is not None)]
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        keeper.wait()
        await self.until(lambda: not any(map(is_running, pids)), "every process is gone", HEAL_S)
        return pids

    async def _ended(self, keeper: "subprocess.Popen[bytes]", timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while keeper.poll() is None:
            if time.monotonic() > deadline:
                raise TimeoutError
            await asyncio.sleep(POLL_S / 5)

    # How it is

    def children(self) -> dict[str, ChildState]:
        """What the keeper says of each server."""
        state = load_state(self.directory)
        return {} if state is None else {child.name: child for child in state.children}

    def pid(self, name: str) -> int | None:
        """The process of a server, while it runs."""
        child = self.children().get(name)
        return None if child is None else child.pid

    async def status(self) -> ClusterStatus:
        """Every server is asked where it listens, whatever the network is like."""
        return await cluster_status(list(self.places.values()), self.file.client_tls)

    async def said_by(self, name: str) -> dict[str, Any] | None:
        """What a server says of itself."""
        return (await cluster_status([self.places[name]], self.file.client_tls)).servers[0].status

    async def healed(self) -> None:
        """Wait until nothing is wrong; `NotHealed` when that takes too long."""
        deadline = time.monotonic() + HEAL_S
        while problems := (await self.status()).problems():
            if self._keeper is None or self._keeper.poll() is not None:
                raise NotHealed(f"the keeper is gone: see {self.directory}/logs/{SUPERVISOR_LOG}.log")
            if time.monotonic() > deadline:
                raise NotHealed(f"not healthy {HEAL_S:.0f} s after the last fault: {'; '.join(problems)}")
            await asyncio.sleep(POLL_S)

    async def until(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Wait until the condition holds; `TimeoutError` says what was waited for."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {timeout_s:.0f} s until {what}")
            await asyncio.sleep(POLL_S / 5)

    async def resolved(self, role: str) -> str:
        """The server that a target of a plan stands for now."""
        while role in self.stand_ins:
            role = self.stand_ins[role]
        if role in self.places:
            return role
        leader = await self._leader()
        if role == "leader":
            return leader.place.name
        followers = [
            name for name, place in self.places.items() if place.role == "orderer" and name != leader.place.name
        ]
        return followers[int(role.removeprefix("follower-")) - 1]

    async def _leader(self) -> ServerStatus:
        """The orderer that leads, once one does: another fault may have ended the last one's term a moment ago."""
        deadline = time.monotonic() + HEAL_S
        while (leader := (await self.status()).leader) is None:
            if time.monotonic() > deadline:
                raise NotHealed(f"no orderer leads for {HEAL_S:.0f} s")
            await asyncio.sleep(POLL_S)
        return leader

    def name_of(self, address: str) -> str:
        """The server that others know by this address."""
        return next(name for name, (public, _) in self.routes.items() if str(public) == address)

    def take_spares(self, count: int) -> list[str]:
        """So many spares that nobody has used."""
        assert count <= len(self._unused), f"{count} spares are wanted, and {len(self._unused)} are left"
        taken, self._unused = self._unused[:count], self._unused[count:]
        return taken

    # What strikes do to servers

    def signal(self, name: str, number: signal.Signals) -> int:
        """Send a signal to a server; its process id."""
        pid = self.pid(name)
        if pid is None or not _signal(pid, number):
            raise TimeoutError(f"{name} does not run")
        return pid

    def environment(self, name: str, variables: Mapping[str, str]) -> None:
        """What is set when the server is started the next time; nothing: as usual."""
        path = self._env_path(name)
        if variables:
            path.write_text("".join(f"export {key}={shlex.quote(value)}\n" for key, value in variables.items()))
        else:
            path.unlink(missing_ok=True)

    def wipe(self, name: str) -> None:
        """Take away everything that a server had on its disk; it must not run."""
        shutil.rmtree(self.data[name])

    def _env_path(self, name: str) -> Path:
        return self.directory / f"{name}.env"


def server_names(shape: Shape) -> list[str]:
    """The servers of a cluster, orderers first."""
    file = _file(shape, list(range(1, 1 + _count(shape))))
    return [place.name for place in servers_of(file) + spares_of(file)]


def _count(shape: Shape) -> int:
    return shape.orderers + shape.shards * shape.replicas + shape.spares


def _file(shape: Shape, ports: list[int]) -> ClusterFile:
    return shaped(replace(shape, segment_bytes=SEGMENT_BYTES), ports)


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def is_running(pid: int) -> bool:
    """Whether the process is there, and more than a zombie."""
    return process_state(pid) not in ("", "Z", "X")


def process_state(pid: int) -> str:
    """What the kernel says that a process does, in one letter (proc(5)); nothing when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
