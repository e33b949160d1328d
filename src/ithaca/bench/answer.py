"""The answer to a replica that failed: its shard is finalized, and another is added (Scalog §4.4.2, "Finalize & Add").

Here whoever runs the experiment notices and answers, as an operator's program would: each shard gets a small append
again and again, and one that does not acknowledge in time is suspected.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ithaca.model.errors import DeadlineExceeded
from ithaca.model.interface_aio import ClusterLog

PROBE = b"are you there?"
PROBE_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class Spare:
    """A shard whose servers run, and that is not registered."""

    shard: int
    addresses: Sequence[str]


@dataclass(frozen=True, slots=True)
class Answered:
    """Which shard was given up, and when what happened, by the monotonic clock."""

    shard: int
    detected_s: float
    finalized_s: float
    added_s: float


Answer = Callable[[ClusterLog, Sequence[int], Spare, float], Awaitable[Answered]]
"""Given a handle, the live shards, a spare one and a time-out: returns when the answer is complete."""


async def finalize_and_add(log: ClusterLog, shards: Sequence[int], spare: Spare, timeout_s: float) -> Answered:
    """Wait until a shard acknowledges nothing for so long; finalize it at once, and add the spare one."""
    shard = await _silent_shard(log, shards, timeout_s)
    detected_s = time.monotonic()
    await log.admin.finalize_shard(shard)
    finalized_s = time.monotonic()
    await log.admin.add_shard(spare.addresses, shard=spare.shard)
    return Answered(shard, detected_s, finalized_s, time.monotonic())


async def probe_all(log: ClusterLog, shards: Sequence[int]) -> None:
    """Have a session in every shard, so that the first probe that counts has none to open."""
    await asyncio.gather(*(log.append_to_shard(shard, PROBE) for shard in shards))


async def _silent_shard(log: ClusterLog, shards: Sequence[int], timeout_s: float) -> int:
    probing = {asyncio.create_task(_until_silent(log, shard, timeout_s)) for shard in shards}
    try:
        done, _ = await asyncio.wait(probing, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for task in probing:
            task.cancel()
        await asyncio.gather(*probing, return_exceptions=True)


async def _until_silent(log: ClusterLog, shard: int, timeout_s: float) -> int:
    while True:
        try:
            await log.append_to_shard(shard, PROBE, timeout=timeout_s)
        except DeadlineExceeded:
            return shard
        await asyncio.sleep(PROBE_INTERVAL_S)
