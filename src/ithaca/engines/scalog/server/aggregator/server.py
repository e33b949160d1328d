"""An aggregator: a server between storage servers and the ordering leader (Scalog §3). Wiring only.

It spares the leader connections and messages. `up` finds the leader, `relay` passes reports up
and the order down. Nothing is on its disk, and nothing of the log depends on it: when it fails, those who reported
through it go to another one or to the leader itself, which costs them time and nothing else.
"""

import asyncio
import logging
from typing import Any
from uuid import UUID

from prometheus_client import CollectorRegistry

from ithaca.engines.scalog.messages.aggregation import Attach
from ithaca.engines.scalog.server.aggregator.relay import Relay
from ithaca.engines.scalog.server.aggregator.up import UpLink
from ithaca.engines.scalog.server.limit_uses import process_uses
from ithaca.engines.scalog.server.route import orderers_status
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import ConfigError
from ithaca.model.view import Address
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, VERSION_MIN, Hello, Welcome
from ithaca.runtime.connection import Connection
from ithaca.runtime.listener import HttpAnswer, Listener, listen
from ithaca.runtime.machine import process_id
from ithaca.runtime.metrics import AggregatorMetrics
from ithaca.server.status import answer_http, encode_status

_log = logging.getLogger("ithaca.aggregator")


class AggregatorServer:
    """One aggregator of a cluster. `start`, then `wait` until it is stopped, then `stop`."""

    def __init__(self, file: ClusterFile, number: int, *, listen_at: Address | None = None) -> None:
        """`listen_at`: if others reach this server at the file's address by way of a proxy or a mapped port."""
        places = {place.aggregator: place for place in file.aggregators}
        if number not in places:
            raise ConfigError(f"there is no aggregator {number} in the cluster's file, only {sorted(places)}")
        place = places[number]
        self._file = file
        self._number = number
        self._level = place.level
        self._listen_at = listen_at or place.address
        self._registry = CollectorRegistry()
        self.metrics = AggregatorMetrics(self._registry)
        self._log_id: UUID | None = None
        self._listener: Listener | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._relay = Relay(number, lambda: encode_status(self.status()), self.metrics)
        orderers = tuple(each.address for each in file.orderers)
        attach = Attach(number, place.address, place.level)
        self._link = UpLink(orderers, attach, self._hello, self._relay, self)

    # Life

    @property
    def address(self) -> Address:
        return self._listen_at if self._listener is None else self._listener.address

    async def start(self) -> None:
        """Listen, and begin to look for the leader."""
        self._listener = await listen(
            self._listen_at,
            accept=self._accept,
            welcome=self._welcome,
            http=self._http,
            on_refused=self.metrics.refused,
        )
        self._observe(self._listener)
        self._task = asyncio.create_task(self._link.run())
        self._task.add_done_callback(lambda _: self._ended.set())
        _log.info("aggregator %d listens at %s", self._number, self.address)

    async def wait(self) -> None:
        """Until the server has stopped; raises what made it fail."""
        await self._ended.wait()
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    async def stop(self) -> None:
        """Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._listener is not None:
            await self._listener.close()
        self._ended.set()

    def belongs_to(self, log: UUID) -> None:
        self._log_id = log

    # What others learn of this server

    def carries(self, shard: int, replica: int) -> bool:
        """Whether this replica has joined here, or at an aggregator below."""
        return self._relay.streams.has(shard, replica)

    def status(self) -> dict[str, Any]:
        at = self._relay.up_name
        return {
            "role": "aggregator",
            "aggregator": self._number,
            "level": self._level,
            "pid": process_id(),
            "address": str(self.address),
            "state": "looking for the leader" if at is None else "attached",
            "attached_to": at,
            "orderers": orderers_status(self._link.newest),
            "replicas": len(self._relay.streams),
            "aggregators": sorted(self._relay.children),
            "connections": 0 if self._listener is None else self._listener.connection_count,
            "limits": process_uses(self._listener),
            "log": None if self._log_id is None else str(self._log_id),
        }

    def _observe(self, listener: Listener) -> None:
        relay = self._relay
        self.metrics.observe_limits(lambda: process_uses(listener))
        self.metrics.connections.set_function(lambda: listener.connection_count)
        self.metrics.joined.set_function(lambda: len(relay.streams))
        self.metrics.is_attached.set_function(lambda: relay.up_name is not None)

    def _hello(self) -> Hello:
        return Hello(
            VERSION_MIN,
            VERSION_MAX,
            "aggregator",
            str(self._number),
            FEATURES,
            self._log_id,
            engine=self._file.engine,
        )

    def _welcome(self) -> Welcome:
        return Welcome(
            VERSION_MAX,
            "aggregator",
            str(self._number),
            FEATURES,
            self._log_id,
            durability=self._file.durability,
            engine=self._file.engine,
        )

    def _accept(self, connection: Connection, hello: Hello) -> Relay:
        return self._relay

    def _http(self, path: str) -> HttpAnswer | None:
        return answer_http(path, self.status, self._registry)
