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
from ithaca.runtime.listener import Listener
from ithaca.runtime.machine import process_id
from ithaca.runtime.metrics import AggregatorMetrics
from ithaca.server.greeter import Greeter
from ithaca.server.life import LivingServer
from ithaca.server.options import ServerOptions
from ithaca.server.status import encode_status

_log = logging.getLogger("ithaca.aggregator")


class AggregatorServer(LivingServer):
    """One aggregator of a cluster. `start`, then `wait` until it is stopped, then `stop`."""

    def __init__(self, file: ClusterFile, number: int, options: ServerOptions | None = None) -> None:
        places = {place.aggregator: place for place in file.aggregators}
        if number not in places:
            raise ConfigError(f"there is no aggregator {number} in the cluster's file, only {sorted(places)}")
        place = places[number]
        super().__init__((options or ServerOptions()).listen_at or place.address)
        self._number = number
        self._level = place.level
        self._registry = CollectorRegistry()
        self.metrics = AggregatorMetrics(self._registry)
        self._log_id: UUID | None = None
        self._task: asyncio.Task[None] | None = None
        self._greeter = Greeter(file, "aggregator", str(number), lambda: self._log_id)
        self._relay = Relay(number, lambda: encode_status(self.status()), self.metrics)
        orderers = tuple(each.address for each in file.orderers)
        attach = Attach(number, place.address, place.level)
        self._link = UpLink(orderers, attach, self._greeter.hello, self._relay, self)

    # Life

    async def _start(self) -> None:
        """Listen, and begin to look for the leader."""
        gate = self._greeter.gate(audit=self._greeter.audit(), refused=self.metrics.refused, knows_users=False)
        relay = self._relay
        listener = await self._listen(self._greeter, lambda *_: relay, self._registry, self.metrics.refused, gate)
        self._observe(listener)
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
        await self._close_listener()
        self._end()

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
