"""How a simulated client gets a handle."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import ithaca.aio
from ithaca.model.errors import IthacaError
from ithaca.model.interface.awaited import ClusterLog

if TYPE_CHECKING:
    from ithaca.sim.world import World

CALL_S = 8.0
AGAIN_S = 0.2
"""How long a client waits before it tries something again."""


async def connected(
    world: "World", call_s: float = CALL_S, *, program: str = "", rights: Sequence[str] = ()
) -> ClusterLog:
    """A handle whose calls take at most so long, as soon as somebody answers.

    A program that says its name and the rights that it needs is a user who has these and no others, in a run where
    programs of its kind are; else it is the operator, as everybody is.
    """
    kind = program.rpartition("-")[0]
    token = await _token(world, program, rights) if kind in world.configuration.ordinary else world.file.client_token
    while True:
        try:
            log = await ithaca.aio.connect(
                world.bootstrap,
                timeout=call_s,
                compression=world.configuration.compression,
                token=token,
            )
            world.handles.append(log)
            return log
        except IthacaError as error:
            world.met(error, "connect")
            await asyncio.sleep(AGAIN_S)


async def _token(world: "World", program: str, rights: Sequence[str]) -> str:
    """What the program has kept since it was made a user. Nobody knows the token of one that may have been made."""
    while program not in world.tokens:
        world.count("program made a user")
        user = f"{program}.{world.counts['program made a user']}"
        operator = await connected(world)
        try:
            made = await operator.admin.add_user(user, rights)
            world.tokens.setdefault(program, made)
            await operator.close()
        except IthacaError as error:
            world.met(error, "add a user")
            await asyncio.sleep(AGAIN_S)
    return world.tokens[program]
