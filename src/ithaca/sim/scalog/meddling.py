"""What no client asks for, and the order must refuse."""

from random import Random

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.log import AsyncClusterLog
from ithaca.engines.scalog.ordering.entries import ExpireSession, MoveSession, OpenSession
from ithaca.engines.scalog.ordering.outcomes import SessionOpened
from ithaca.model.interface.awaited import ClusterLog
from ithaca.sim.world import World

_MEDDLING_S = 2.0


async def meddle(world: World, random: Random, log: ClusterLog, name: str) -> None:
    """Ask for what no client asks for: that a session leaves a lane that is open, where it has done nothing, or that
    one comes to live in a shard that is about to go."""
    assert isinstance(log, AsyncClusterLog)
    order, deadline = log._context.order, Deadline(_MEDDLING_S)
    leaving = [lane for shard in world.view.shards if shard.phase == "finalizing" for lane in shard.open_lanes()]
    if leaving:
        await order.propose(OpenSession(f"{name}/late", leaving[0]), deadline)
        world.count("session asked to live in a shard that leaves")
    lanes = order.view.live_lanes()
    if len(lanes) < 2:
        return
    home, target = random.sample(lanes, 2)
    for opened in await order.propose(OpenSession(f"{name}/meddling", home), deadline):
        if isinstance(opened, SessionOpened):
            session = opened.session
            await order.propose(MoveSession(session.producer_id, session.epoch, session.home, target), deadline)
            await order.propose(ExpireSession(session.producer_id, session.epoch), deadline)
            world.count("session asked to leave an open lane")
