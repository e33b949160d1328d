"""A crowd of clients that want nothing: they take what connections a server has, and keep it for a while.

Some have said hello and are idle, some wait for a record to come, some have sent the beginning of a frame, and some
have not even said hello. Drawn apart from the rest of a configuration, so that the other seeds stay what they were.
"""

import asyncio
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from msgspec import structs

from ithaca.engines.scalog.messages.appending import Append
from ithaca.engines.scalog.messages.reading import Read
from ithaca.model.errors import IthacaError
from ithaca.model.limits import KIB, MIB, READ_WAIT_MS_MAX
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.codec import encode_message
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, Hello
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import dial
from ithaca.sim.host import Host
from ithaca.sim.scheduler import NS_PER_S

if TYPE_CHECKING:
    from ithaca.protocol.codec import Received
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.world import World

_CHANCE = 0.2
_CONNECTIONS = 64
_AHEAD = 20
_ARRIVE_S = 0.5
_LOOK_S = 0.5
_AGAIN_S = 1.0
_HELLO = Hello(VERSION_MIN, VERSION_MAX, "client", "crowd")
_FRAME = b"".join(map(bytes, encode_message(Append(LaneId(0, 0, 1)), payload=[bytes(48 * KIB)])))


def with_flood(configuration: "Configuration") -> "Configuration":
    """The same, or with a crowd, and limits for connections and unfinished frames that are soon reached."""
    random = Random(f"crowd of {configuration.seed}")
    if random.random() >= _CHANCE:
        return configuration
    limits = {
        "CONNECTIONS_MAX": _CONNECTIONS,
        "CONNECTIONS_RESERVED": _CONNECTIONS // 4,
        "GREETINGS_MAX": random.choice((8, 256)),
        "LINGERING_MAX": random.choice((2, 64)),
        "FRAMES_BYTES_MAX": random.choice((32 * KIB, MIB)),
        "FRAMES_BYTES_RESERVED": random.choice((0, 8 * KIB)),
        "FRAMES_WAITING_BYTES_MAX": random.choice((16 * KIB, MIB)),
    }
    return replace(configuration, flood=_CONNECTIONS, limits=configuration.limits | limits)


class ConnectionFlood:
    """The process of all of them."""

    def __init__(self, world: "World") -> None:
        self.name = "crowd"
        self._world = world

    async def main(self, who: object, random: Random) -> None:
        """One life of it: again and again all go to one server, stay for a while, and leave."""
        world = self._world
        servers = [host for host in world.hosts.values() if host.place is not None]
        while not world.is_healing:
            await asyncio.sleep(random.uniform(0, 2))
            host = random.choice(servers)
            end_ns = world.scheduler.now_ns + int(random.uniform(0.5, 6) * NS_PER_S)
            world.count("crowd came")
            world.tell(f"a crowd comes to {host.name}")
            await asyncio.gather(*(self._stay(host, end_ns, random) for _ in range(world.configuration.flood)))

    async def _stay(self, host: Host, end_ns: int, random: Random) -> None:
        """Keep a connection to the server until the end, and get another one if it is lost."""
        assert host.place is not None
        world = self._world
        kind = random.choice(("idle", "idle", "idle", "waiting", "halting", "silent"))
        await asyncio.sleep(random.uniform(0, _ARRIVE_S))
        while world.scheduler.now_ns < end_ns and not world.is_healing:
            connection: Connection | None = None
            try:
                connection = await self._connected(host.place.address, kind)
                if kind == "waiting" and host.is_storage:
                    position = max(1, world.recorder.last_position + random.randint(-2, _AHEAD))
                    connection.send(Read(position, READ_WAIT_MS_MAX), correlation=connection.next_correlation())
                elif kind == "halting" and connection._transport is not None:  # else it is lost already
                    connection._transport.write(_FRAME[: random.randint(1, len(_FRAME) - 1)])
                while world.scheduler.now_ns < end_ns and not world.is_healing and connection.is_open:
                    await asyncio.wait([connection._lost], timeout=_LOOK_S)
            except (IthacaError, OSError) as error:
                world.count(f"crowd met {type(error).__name__}")
                await asyncio.sleep(_AGAIN_S)
            finally:
                if connection is not None:
                    connection.abort()

    async def _connected(self, address: Address, kind: str) -> Connection:
        if kind != "silent":
            return await dial(address, structs.replace(_HELLO, engine=self._world.configuration.engine), self)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(_never), address.host, address.port)
        return connection

    def on_message(self, connection: Connection, received: "Received") -> None:
        """Whatever the answer is."""

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        pass


def _never(connection: Connection, received: "Received") -> ConnectionFlood:
    raise AssertionError("nobody said hello, and was welcomed")
