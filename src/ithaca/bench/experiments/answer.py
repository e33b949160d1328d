"""How the cluster answers a replica that failed, seen from outside: its shard is finalized, and another is made of
spares (`finalize-and-add`, Scalog §4.4.2). The leader does all of that; here it is only watched.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ithaca.model.errors import Unavailable
from ithaca.model.interface.awaited import ClusterLog

_LOOK_S = 0.01
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Answered:
    """Which shard took the place, and when what was seen, by the monotonic clock.

    The new shard is what the leader makes first when it has noticed: so it was detected then at the latest.
    """

    shard: int
    detected_s: float
    finalized_s: float


async def answered(log: ClusterLog, shard: int, live: Sequence[int]) -> Answered:
    """Wait until this one of the live shards was finalized, and another has come."""
    known = {each.shard for each in await log.admin.shards()}
    deadline_s = time.monotonic() + _PATIENCE_S
    new, detected_s = None, 0.0
    while time.monotonic() < deadline_s:
        phases = {each.shard: each.phase for each in await log.admin.shards()}
        if new is None and (came := phases.keys() - known):
            new, detected_s = min(came), time.monotonic()
        if new is not None and phases.get(shard) == "finalized":
            return Answered(new, detected_s, time.monotonic())
        if any(phases.get(other) == "finalized" for other in live if other != shard):
            break
        await asyncio.sleep(_LOOK_S)
    raise Unavailable(
        f"a replica of shard {shard} was killed, and {'nothing' if new is None else 'something else'} was done about "
        "it: this machine is too busy to tell so soon who is silent; choose a longer --detect"
    )
