"""What a round does to the cluster."""

import asyncio
import itertools
from collections.abc import Callable

from ithaca.model.interface.awaited import ClusterLog
from ithaca.torture.clients.client import patient
from ithaca.torture.soak.plan import Counts
from ithaca.torture.soak.subject import SEGMENT_BYTES, Subject

TOGETHER = 16
"""Parts that are prepared at the same time, and published together."""
IN_FLIGHT = 8
"""Batches of a segment each that are on their way at the same time."""
PART_RECORDS = 10
RECORD = b"r" * 100
RECORD_BYTES = 4096
WRITER = "soak"


class Worker:
    """Goes through the work of one round after the other."""

    def __init__(self, subject: Subject, advance: Callable[[], object]) -> None:
        self._subject = subject
        self._advance = advance
        self._key = itertools.count(1)

    async def do(self, log: ClusterLog, share: Counts) -> None:
        """The work of a round."""
        await self._publish(log, share.parts)
        await self._fill_segments(log, share.segments)
        for _ in range(share.restarts):
            await asyncio.to_thread(self._subject.restart_replica)
            await patient(lambda: log.append(RECORD))
            self._advance()
        for _ in range(share.leader_changes):
            await asyncio.to_thread(self._subject.change_leader)
            await patient(lambda: log.append(RECORD))
            self._advance()

    async def _publish(self, log: ClusterLog, parts: int) -> None:
        for first in range(0, parts, TOGETHER):
            await self._publish_together(log, min(TOGETHER, parts - first))
            self._advance()

    async def _publish_together(self, log: ClusterLog, count: int) -> None:
        values = [RECORD] * PART_RECORDS
        prepared = await asyncio.gather(*(patient(lambda: log.prepare(values)) for _ in range(count)))
        key = next(self._key)
        await patient(lambda: log.publish(key, prepared, writer=WRITER))

    async def _fill_segments(self, log: ClusterLog, segments: int) -> None:
        """A batch that is as large as a segment gets one of its own."""
        values = [bytes(RECORD_BYTES)] * (SEGMENT_BYTES // RECORD_BYTES)
        for first in range(0, segments, IN_FLIGHT):
            count = min(IN_FLIGHT, segments - first)
            await asyncio.gather(*(patient(lambda: log.append_many(values)) for _ in range(count)))
            self._advance()
