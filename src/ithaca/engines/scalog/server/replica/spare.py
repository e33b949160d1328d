"""A storage server that is nobody yet: it waits at the leader until it is told which replica it shall be.

What it became is in the `meta` of its directory (`engines.scalog.storage.replica_meta`), so that the next start goes on
as that replica. A spare whose disk was lost asks again, and is told the same, if the view has a replica at its address.

One that is not needed after all is a spare again by itself. What it copied is quarantined, not deleted: whether
somebody counts on it is for people to say.
"""

import asyncio
import logging
from typing import Any, ClassVar

from ithaca.engines.scalog.messages.reporting import Enlist, Enlisted
from ithaca.engines.scalog.server.limit_uses import aside_uses, disk_uses, process_uses
from ithaca.engines.scalog.server.replica.server import ReplicaServer
from ithaca.engines.scalog.server.route import Route
from ithaca.engines.scalog.storage import replica_meta
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import IthacaError, NoSuchReplica, ProtocolError, StorageFull
from ithaca.model.limits import STORAGE_FULL_RETRY_S
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import GetStatus, Redirect, StatusIs
from ithaca.protocol.members import OrderersAre
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.dialling import dial
from ithaca.runtime.listener import HttpAnswer, Listener, listen
from ithaca.runtime.machine import monotonic_s, process_id, wall_us
from ithaca.server.greeter import Greeter
from ithaca.server.life import lock_directory
from ithaca.server.options import ServerOptions
from ithaca.server.status import answer_http, encode_status
from ithaca.storage.disk import OsFile

_log = logging.getLogger("ithaca.spare")


class SpareServer:
    """A spare, and then the replica that it has become. `start`, then `wait` until it fails, then `stop`."""

    replica_kind: ClassVar[type[ReplicaServer]] = ReplicaServer
    """What it becomes, of an engine that is built on this one."""

    def __init__(
        self, file: ClusterFile, address: Address, directory: str, options: ServerOptions | None = None
    ) -> None:
        """Others reach it at `address`."""
        self._options = options or ServerOptions()
        self._file = file
        self._address = address
        self._directory = directory
        self._disk = self._options.disk
        self._listen_at = self._options.listen_at or address
        self._greeter = Greeter(file, "replica", "spare", certified=file.spare_name(address))
        self._route = Route(tuple(place.address for place in file.orderers))
        self._lock: OsFile | None = None
        self._listener: Listener | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._is_clearing = False
        """Whether what it held as a replica that nobody needs is still in the way."""
        self._kept_aside: list[str] = []
        self.replica: ReplicaServer | None = None
        """What it has become."""

    @property
    def address(self) -> Address:
        return self._listen_at if self.replica is None else self.replica.address

    @property
    def is_waiting(self) -> bool:
        """Whether it is nobody, and listens as such."""
        return self.replica is None and self._listener is not None

    async def start(self) -> None:
        """Listen: as the replica that it became before, or as a spare that asks for a place."""
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        known = replica_meta.identity(self._disk, self._directory)
        if known is not None:
            await self._become(*known)
        else:
            await self._begin_waiting()

    async def _begin_waiting(self) -> None:
        self._lock = lock_directory(self._disk, self._directory)
        self._is_clearing = self._disk.exists(f"{self._directory}/{replica_meta.NAME}")
        try:
            self._listener = await listen(
                self._listen_at,
                accept=lambda *_: _StatusPeer(self),
                welcome=self._greeter.welcome,
                http=self._http,
                guard=self._greeter.guard,
                audit=self._greeter.audit(),
                gate=self._greeter.gate(knows_users=False),
            )
        except BaseException:
            self._unlock()
            raise
        self._waiting = asyncio.create_task(self._wait_for_a_place())
        _log.info("a spare listens at %s", self.address)

    async def wait(self) -> None:
        await asyncio.shield(self._ended)

    async def stop(self) -> None:
        """End cleanly. Idempotent."""
        while self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await self._stop_listening()
        if self.replica is not None:
            await self.replica.stop()
        if not self._ended.done():
            self._ended.set_result(None)

    def status(self) -> dict[str, Any]:
        if self.replica is not None:
            return self.replica.status()
        return {
            "role": "spare",
            "pid": process_id(),
            "address": str(self.address),
            "state": "quarantining" if self._is_clearing else "waiting",
            "quarantined": self._kept_aside,
            "limits": process_uses(self._listener)
            | disk_uses(self._disk, self._directory)
            | aside_uses(len(self._kept_aside)),
            "log": None,
        }

    # From a spare to a replica

    async def _wait_for_a_place(self) -> None:
        try:
            await self._clear()
            assigned = await self._enlisted()
            _log.info("this spare becomes replica %d of shard %d", assigned.replica, assigned.shard)
            await self._stop_listening()
            await self._become(assigned.shard, assigned.replica)
        except Exception as error:
            if not self._ended.done():
                self._ended.set_exception(error)

    async def _become(self, shard: int, replica: int) -> None:
        self.replica = self.replica_kind(
            self._file, shard, replica, self._directory, self._options, address=self._address, is_spare=True
        )
        await self.replica.start()
        self._waiting = asyncio.create_task(self._follow(self.replica))

    async def _clear(self) -> None:
        """If it was to become a replica, and is not needed, move what it copied out of the way."""
        told = ""
        while True:
            try:
                name = await asyncio.to_thread(
                    replica_meta.quarantine,
                    self._disk,
                    self._directory,
                    now_us=wall_us(),
                    beside=self.replica_kind.beside,
                )
                break
            except StorageFull as error:
                if str(error) != told:
                    _log.error("this server cannot be a spare again: %s", error)
                told = str(error)
                await asyncio.sleep(STORAGE_FULL_RETRY_S)
        self._kept_aside = replica_meta.kept_aside(self._disk, self._directory)
        self._is_clearing = False
        if name is not None:
            _log.warning(
                "what this server copied is kept as %s/%s: delete it if you do not need it", self._directory, name
            )

    async def _follow(self, replica: ReplicaServer) -> None:
        """Whatever ends the replica ends this server, but that its shard does not need it: then it waits again."""
        try:
            await self._wait_on_if_not_needed(replica)
        except Exception as error:
            if not self._ended.done():
                self._ended.set_exception(error)

    async def _wait_on_if_not_needed(self, replica: ReplicaServer) -> None:
        try:
            await replica.wait()
        except NoSuchReplica as error:
            _log.warning("this server was not needed, and is a spare again: %s", error)
            await replica.stop()
            self.replica = None
            await self._begin_waiting()

    async def _enlisted(self) -> Enlisted:
        """Ask one orderer after the other, and follow the leader, until there is an answer."""
        while True:
            address, was_refused = self._route.next(), False
            try:
                answer = await self._ask(address)
            except IthacaError as error:
                _log.info("%s has no place for this spare: %s", address, error)
                was_refused = True
            else:
                if isinstance(answer, Enlisted):
                    return answer
                self._route.learn(answer.orderers)
                self._route.redirected(answer.leader)
            await asyncio.sleep(self._route.ended(monotonic_s(), had_joined=False, was_refused=was_refused))

    async def _ask(self, address: Address) -> Enlisted | Redirect:
        connection = await dial(address, self._greeter.hello(), _OrderPeer(self._route))
        try:
            message = (await connection.request(Enlist(self._address), timeout=None)).message
        finally:
            connection.abort()
        if not isinstance(message, Enlisted | Redirect):
            raise ProtocolError(f"{address} answered a spare with {type(message).__name__}")
        return message

    async def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # What others learn of it

    def _http(self, path: str) -> HttpAnswer | None:
        return answer_http(path, lambda: self._greeter.told(self.status()))


class _StatusPeer(Peer):
    """Whoever speaks to a spare: it says how it is, and nothing else."""

    def __init__(self, spare: SpareServer) -> None:
        self._spare = spare

    def on_message(self, connection: Connection, received: Received) -> None:
        if not isinstance(received.message, GetStatus):
            raise ProtocolError(f"a spare does not take {type(received.message).__name__}")
        connection.answer(received, StatusIs(encode_status(self._spare.status())))

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        pass


class _OrderPeer(Peer):
    """The orderer at which a spare waits: it says where the others are, when that changes."""

    def __init__(self, route: Route) -> None:
        self._route = route

    def on_message(self, connection: Connection, received: Received) -> None:
        if not isinstance(received.message, OrderersAre):
            raise ProtocolError(f"a spare that waits does not take {type(received.message).__name__}")
        self._route.learn(received.message.orderers)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        pass
