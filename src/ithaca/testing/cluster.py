"""A cluster whose servers are objects on one loop, in a thread of this process."""

import asyncio
import logging
import tempfile
import threading
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

import ithaca.aio
from ithaca.cluster.certs.local import secured
from ithaca.cluster.layout import bootstrap_of, servers_of, spares_of
from ithaca.cluster.limits import CLUSTER_START_TIMEOUT_S
from ithaca.cluster.local import FILE, Wanted, refuse_difference
from ithaca.cluster.operator_token import with_users
from ithaca.cluster.orderers import remove_orderer_table
from ithaca.cluster.ports import LOOPBACK, free_ports
from ithaca.cluster.running import healthy
from ithaca.cluster.shards import append_shard, append_text
from ithaca.cluster.status import ClusterStatus, cluster_status
from ithaca.cluster.temporary import Shape, shaped
from ithaca.engines.registry import make_server
from ithaca.model.arguments import flag, text, whole
from ithaca.model.config.cluster import ClusterFile, OrdererPlace, ReplicaPlace, ShardPlace, load_cluster
from ithaca.model.config.failures import NO_ACTION, FailurePolicy
from ithaca.model.config.text import dump_cluster, dump_orderer
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.errors import DeadlineExceeded, InvalidInput, IthacaError, WrongLane
from ithaca.model.limits import SHARD_REPLICAS_MAX
from ithaca.model.paths import AnyPath, local_path
from ithaca.model.quorum import shard_f
from ithaca.model.records import Durability
from ithaca.model.security.tls import TLS
from ithaca.model.server_place import ServerPlace
from ithaca.model.units import Duration, seconds
from ithaca.model.view import Address
from ithaca.server.options import ServerOptions
from ithaca.server.process import Server
from ithaca.testing.mortal_disk import MortalDisk
from ithaca.testing.shape import check_shape

T = TypeVar("T")

_log = logging.getLogger("ithaca.testing")


@dataclass(frozen=True, slots=True)
class _Running:
    server: Server
    disk: MortalDisk
    watching: asyncio.Task[None]

    async def end(self) -> None:
        self.watching.cancel()
        await self.server.stop()


class Cluster:
    """A cluster on free ports of the loopback interface, healthy when the context is entered.

    Without a directory it gets a temporary one. A directory that had a cluster before is gone on with, on the
    same ports, and must be of the same shape. All methods may be called from any thread.

    >>> with Cluster() as cluster:
    ...     cluster.names
    ['orderer-1', 'shard-0-replica-0', 'shard-0-replica-1']
    """

    def __init__(
        self,
        directory: AnyPath | None = None,
        *,
        shards: int = 1,
        replicas: int = 2,
        orderers: int = 1,
        durability: Durability = "fsync",
        masking: bool = False,
        spares: int = 0,
        failures: FailurePolicy = NO_ACTION,
        aggregators: int = 0,
        engine: EngineName | None = None,
        tls: bool = False,
        users: bool = False,
    ) -> None:
        """`spares` wait to become replicas, named `spare-1` and so on; `failures` is what calls for them. With
        `tls` the cluster has an authority of its own, and its property `tls` is what `ithaca.connect` needs; with
        `users` clients have rights of their own, and `token` is the operator's."""
        shape = Shape(
            shards,
            replicas,
            orderers,
            durability,
            masking=masking,
            spares=spares,
            failures=failures,
            aggregators=aggregators,
            engine=DEFAULT_ENGINE if engine is None else engine,
            tls=tls,
            users=users,
        )
        check_shape(shape)
        place = None if directory is None else Path(local_path(directory, "directory"))
        if place is not None and (place / FILE).exists():
            self.file: ClusterFile = load_cluster(place / FILE)
            wanted = Wanted(
                shards, replicas, orderers, None, durability, aggregators, engine, tls=tls or None, users=users or None
            )
            refuse_difference(place, self.file, wanted)
        else:
            self.file = shaped(shape, free_ports(orderers + shards * replicas + aggregators + spares))
        self._wants_tls = tls
        self._wants_users = users
        self._places = self._all_places()
        self._wanted_directory = place
        self._running: dict[str, _Running] = {}
        self._ailing: set[asyncio.Task[None]] = set()
        """Those that watched a server fail and look after it now."""
        self._closing = False
        self._orderer_last = 0
        self._cleanup = ExitStack()
        self.directory = Path()
        """Where the servers' directories are, once the cluster is started."""

    @property
    def bootstrap(self) -> str:
        """What `ithaca.connect` takes."""
        return bootstrap_of(self.file)

    @property
    def tls(self) -> TLS | None:
        """What `ithaca.connect` needs beside that, once the cluster is started; None without TLS."""
        return self.file.client_tls

    @property
    def token(self) -> str | None:
        """The operator's token, where the cluster has users and no TLS; None otherwise."""
        return self.file.client_token

    @property
    def names(self) -> list[str]:
        """Of all servers, those that are stopped included."""
        return list(self._places)

    # Life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Start every server, and wait until the cluster is healthy."""
        with ExitStack() as stack:
            if self._wanted_directory is None:
                temporary = tempfile.TemporaryDirectory(prefix="ithaca-", ignore_cleanup_errors=True)
                self.directory = Path(stack.enter_context(temporary))
            else:
                self.directory = self._wanted_directory
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._wants_tls and self.file.tls is None:
                self.file = secured(self.directory, self.file)
            if self._wants_users and self.file.users is None:
                self.file = with_users(self.directory, self.file)
            (self.directory / FILE).write_text(dump_cluster(self.file), encoding="utf-8")
            self._loop, self._closing = uvloop.new_event_loop(), False
            thread = threading.Thread(target=self._loop.run_forever, name="ithaca-testing", daemon=True)
            thread.start()
            stack.callback(self._loop.close)
            stack.callback(thread.join)
            stack.callback(self._loop.call_soon_threadsafe, self._loop.stop)
            stack.callback(lambda: self._run(self._stop_all()))
            for name in self._places:
                self.start_server(name)
            self.wait_healthy()
            self._cleanup = stack.pop_all()

    def close(self) -> None:
        """Stop every server, and remove the directory if it is a temporary one. Idempotent."""
        self._cleanup.close()

    # Servers, by name

    def start_server(self, name: str) -> None:
        """Start a server that does not run; returns when it listens."""
        self._run(self._start(self._place(name)))

    def stop_server(self, name: str) -> None:
        """Stop a server cleanly, as SIGTERM does. Idempotent."""
        self._run(self._stop(self._place(name).name))

    def kill_server(self, name: str) -> None:
        """End a server as `kill -9` does: from here on nothing of it reaches its disk."""
        self._run(self._kill(self._place(name).name))

    def kill_replica(self, shard: int, replica: int) -> None:
        """`kill_server`, by numbers."""
        self.kill_server(f"shard-{shard}-replica-{replica}")

    def kill_orderer(self, server: int) -> None:
        """`kill_server`, by number."""
        self.kill_server(f"orderer-{server}")

    # Shards

    def add_shard(self, *, masking: bool = False, replicas: int = 2) -> int:
        """Start the servers of another shard and register it; returns its number once it takes appends."""
        flag(masking, "masking")
        whole(replicas, "replicas", 1, SHARD_REPLICAS_MAX)
        number = max(shard.shard for shard in self.file.shards) + 1
        places = tuple(
            ReplicaPlace(replica, Address(LOOPBACK, port)) for replica, port in enumerate(free_ports(replicas))
        )
        shard = ShardPlace(number, shard_f(replicas, masking), masking, places)
        self.file = append_shard(self.directory / FILE, shard)
        self._places = self._all_places()
        for name in [place.name for place in self._places.values() if place.shard == number]:
            self.start_server(name)

        async def register() -> None:
            async with ithaca.aio.connect(self.bootstrap, tls=self.tls, token=self.token) as log:
                await log.admin.add_shard([str(each.address) for each in places], masking=masking, shard=number)

        self._run(register())
        self.wait_healthy()
        return number

    # Orderers

    def add_orderer(self) -> int:
        """Start another orderer and add it; returns its number once it votes. Add two: an even number survives no more.

        >>> with Cluster() as cluster:
        ...     cluster.add_orderer(), cluster.add_orderer(), cluster.remove_orderer(1)
        ...     cluster.names[:2]
        (2, 3, None)
        ['orderer-2', 'orderer-3']
        """
        self._orderer_last = max(self._orderer_last, *(place.server for place in self.file.orderers)) + 1
        place = OrdererPlace(self._orderer_last, Address(LOOPBACK, free_ports(1)[0]), joining=True)
        self.file = append_text(self.directory / FILE, dump_orderer(place))
        self._places = self._all_places()
        self.start_server(f"orderer-{place.server}")

        async def add() -> int:
            async with ithaca.aio.connect(self.bootstrap, tls=self.tls, token=self.token) as log:
                return await log.admin.add_orderer(str(place.address))

        return self._run(add())

    def remove_orderer(self, server: int) -> None:
        """Remove an orderer for good, and stop it if it runs."""
        whole(server, "server", 1)

        async def remove() -> None:
            async with ithaca.aio.connect(self.bootstrap, tls=self.tls, token=self.token) as log:
                await log.admin.remove_orderer(server)

        self._run(remove())
        self.stop_server(f"orderer-{server}")
        self.file = remove_orderer_table(self.directory / FILE, self.file, server)
        self._places = self._all_places()

    # How it is

    def status(self) -> ClusterStatus:
        """What each server says of itself."""
        return self._run(cluster_status(list(self._places.values()), self.tls))

    def wait_healthy(self, timeout: Duration = CLUSTER_START_TIMEOUT_S) -> None:
        """Wait until every server does all that it is there for; `DeadlineExceeded` says what does not."""
        timeout_s = seconds(timeout)
        missing = ["nothing is known yet"]

        async def wait() -> None:
            await healthy(list(self._places.values()), self.tls, missing.append)

        try:
            self._run(asyncio.wait_for(wait(), timeout_s))
        except TimeoutError:
            raise DeadlineExceeded(f"the cluster is not healthy after {timeout_s:g} s: {missing[-1]}") from None

    # In the loop

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _all_places(self) -> dict[str, ServerPlace]:
        return {place.name: place for place in servers_of(self.file) + spares_of(self.file)}

    def _place(self, name: str) -> ServerPlace:
        if text(name, "name", "the name of a server") not in self._places:
            raise InvalidInput(f"there is no server {name}: there are {', '.join(self._places)}")
        return self._places[name]

    async def _start(self, place: ServerPlace) -> None:
        if place.name in self._running:
            raise InvalidInput(f"{place.name} runs already: stop or kill it first")
        disk = MortalDisk()
        directory = str(self.directory / place.name)
        server = make_server(self.file, place, directory, ServerOptions(disk))
        await server.start()
        watching = asyncio.create_task(self._watch(place.name, server))
        self._running[place.name] = _Running(server, disk, watching)

    async def _watch(self, name: str, server: Server) -> None:
        """A server that fails is stopped, as its process would end."""
        try:
            await server.wait()
        except Exception as error:
            _log.warning("%s has failed: %s", name, error)
            self._running.pop(name, None)
            nursing = asyncio.create_task(self._nurse(name, server, error))
            self._ailing.add(nursing)
            nursing.add_done_callback(self._ailing.discard)

    async def _nurse(self, name: str, server: Server, error: Exception) -> None:
        await server.stop()
        if isinstance(error, WrongLane) and not self._closing:
            await self._start(self._places[name])  # its lane was closed, and it needs another: any supervisor does it

    async def _nursed(self) -> None:
        """Until no server is being stopped or started again because it failed."""
        if self._ailing:
            await asyncio.wait(self._ailing)

    async def _stop(self, name: str) -> None:
        await self._nursed()
        running = self._running.pop(name, None)
        if running is not None:
            await running.end()

    async def _kill(self, name: str) -> None:
        await self._nursed()
        running = self._running.pop(name, None)
        if running is None:
            raise InvalidInput(f"{name} does not run")
        running.disk.cut_off()
        try:
            await running.end()
        except (IthacaError, OSError) as error:  # of course: its disk is gone
            _log.debug("%s was killed: %s", name, error)
        finally:
            running.disk.unlock()

    async def _stop_all(self) -> None:
        self._closing = True
        failures = []
        for name in reversed(list(self._running)):  # whatever one says, the others are stopped
            try:
                await self._stop(name)
            except Exception as error:
                failures.append(error)
        await self._nursed()
        await self._loop.shutdown_default_executor()
        if failures:
            raise failures[0]
