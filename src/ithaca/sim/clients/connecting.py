"""How a simulated client gets a handle."""

import asyncio
from typing import TYPE_CHECKING

import ithaca.aio
from ithaca.model.errors import IthacaError
from ithaca.model.interface.awaited import ClusterLog

if TYPE_CHECKING:
    from ithaca.sim.world import World

CALL_S = 8.0
AGAIN_S = 0.2
"""How long a client waits before it tries something again."""


async def connected(world: "World", call_s: float = CALL_S) -> ClusterLog:
    """A handle whose calls take at most so long, as soon as somebody answers."""
    while True:
        try:
            log = await ithaca.aio.connect(
                world.bootstrap,
                timeout=call_s,
                compression=world.configuration.compression,
                token=world.file.client_token,
            )
            world.handles.append(log)
            return log
        except IthacaError as error:
            world.met(error, "connect")
            await asyncio.sleep(AGAIN_S)
