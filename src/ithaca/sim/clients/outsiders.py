"""Users of a simulated cluster who may do little, and then nothing: what they are refused must not happen.

A user may read, and tries to append: nothing of that may ever be in the log. Then it is revoked, and once no server can
have missed that any longer it is told nothing more. Of the other programs some kinds are users, too, with the rights
that they need and no others, so that whatever they are refused for want of a right is a violation; the rest are the
operator. Drawn apart from everything else, so that the seeds without users stay what they were.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

import ithaca.aio
from ithaca.model.config.users import ClusterUsers
from ithaca.model.errors import IthacaError, NotAllowed
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.security.users import OPERATOR
from ithaca.sim.clients.connecting import AGAIN_S, CALL_S, connected
from ithaca.sim.process import Process
from ithaca.users.limits import USERS_STALE_S_MAX
from ithaca.users.table import USER_BYTES
from ithaca.users.tokens import SECRET_BYTES, token_text

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.world import World

RULE = "users"
ENGINES: Final = ("scalog", "belfast", "raft")
ORDINARY: Final = ("reader", "edge-reader", "producer", "speculator")
"""Programs that may be users: what they have names for is theirs alone."""
RAFT: Final = "raft"
_CHANCE = 0.1
_USERS = 64
"""For how many there is room in a state that has little: programs that are made users, more than once if need be."""
_FORGOTTEN_S = 1.5 * USERS_STALE_S_MAX
"""After so long, by whatever clock, no server lets a user do anything that was revoked."""
_FORBIDDEN: Final = b"of somebody who may not append"


def with_users(configuration: "Configuration") -> "Configuration":
    """The same, or as a cluster that has users."""
    random = Random(f"users of {configuration.seed}")
    if configuration.engine not in ENGINES or random.random() >= _CHANCE:
        return configuration
    ordinary = tuple(kind for kind in ORDINARY if random.random() < 0.5)
    limits = dict(configuration.limits)
    for name in ("ORDERING_STATE_BYTES_MAX", "RAFT_SNAPSHOT_BYTES_MAX"):  # for users beside everything else
        if name in limits:
            limits[name] += _USERS * USER_BYTES
    return replace(configuration, users=True, ordinary=ordinary, limits=limits)


class SimulatedUsers(ClusterUsers):
    """Users of a cluster whose servers have no files outside of their disks."""

    def operator_token(self) -> str:
        return token_text(OPERATOR, bytes(SECRET_BYTES))


class Outsider:
    """A program that has users made, and is each of them for a while."""

    name = "outsider"

    def __init__(self, world: "World") -> None:
        self._world = world
        self._made = 0
        self.succeeded = 0
        """Users who were refused what they had to be."""

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        operator = await connected(self._world)
        while True:
            try:
                await self._be_somebody(operator)
            except IthacaError:
                self._world.count("outsider met trouble")
            await asyncio.sleep(random.uniform(AGAIN_S, 10 * AGAIN_S))

    async def _be_somebody(self, operator: ClusterLog) -> None:
        self._made += 1
        name = f"reader-{self._made}"
        token = await operator.admin.add_user(name, ["read"])
        log = await ithaca.aio.connect(self._world.bootstrap, timeout=CALL_S, token=token)
        try:
            await self._try_to_append(log)
            await self._revoked(operator, name)
            await self._try_to_read(log)
        finally:
            await log.close()

    async def _try_to_append(self, log: ClusterLog) -> None:
        try:
            receipt = await log.append(_FORBIDDEN)
        except NotAllowed:
            self._world.count("outsider may not append")
        except IthacaError:
            self._world.count("outsider met trouble")
        else:
            self._world.accuse(RULE, f"a user who may only read has appended position {receipt.position}")

    async def _revoked(self, operator: ClusterLog, name: str) -> None:
        """Until it is certain that the user is none any more, and that every server knows."""
        while True:
            try:
                await operator.admin.revoke_user(name)
            except IthacaError:
                await asyncio.sleep(AGAIN_S)
            else:
                break
        await asyncio.sleep(_FORGOTTEN_S)

    async def _try_to_read(self, log: ClusterLog) -> None:
        first = self._world.ordered.first
        reads: list[Callable[[], Awaitable[object]]] = [log.tail]
        if self._world.configuration.engine != RAFT:  # whose servers go by what they have applied
            reads.append(lambda: log.read(first))
        for read in reads:
            try:
                told = await read()
            except IthacaError:
                self.succeeded += 1
                self._world.count("outsider is told nothing")
            else:
                self._world.accuse(RULE, f"a user who was revoked was told {told!r}")
