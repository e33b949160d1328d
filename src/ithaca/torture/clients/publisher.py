"""A client that prepares parts and publishes them: with little patience, and again under the same key until it is told.

The records of a publication are the same in every try, whether its parts are those of the try before or were prepared
again because they were gone.
"""

import asyncio
import time
from itertools import count
from random import Random

from ithaca.model.errors import IthacaError, PartGone
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.parts import Part, Published
from ithaca.proof import payload
from ithaca.proof.history import HistoryWriter, Outcome, Publish
from ithaca.torture.clients.batches import Pace
from ithaca.torture.clients.client import RETRY_S, Client, passes

TIMEOUT_S = 8.0
SESSIONS = 1_000_000
"""Numbers of sessions that each client has for itself; a hundredth of them is for one life of it."""
RECORD_BYTES_MAX = 1000

Rows = tuple[tuple[int, int, int], ...]
"""Session, first number and count of each part."""


async def publish(client: Client) -> None:
    """Publish one set after the other until told to finish."""
    errand = client.errand
    log = await client.connected()
    log.set_shard_policy("round_robin")
    random = Random(f"publisher {errand.seed} {errand.name} {errand.life}")
    sessions = count(errand.number * SESSIONS + errand.life * (SESSIONS // 100))
    pace = Pace(errand.rate / 4)
    with HistoryWriter(errand.calls()) as calls:
        for key in count(1):
            if client.is_finishing:
                break
            rows = tuple((next(sessions), 1, random.randint(1, 200)) for _ in range(random.randint(1, 4)))
            await pace.next(sum(row[2] for row in rows))
            await _Publication(client, log, f"{errand.name}.{errand.life}", key, rows).published(calls)
            client.count(sum(row[2] for row in rows))
    await log.close()


class _Publication:
    """Some records under a key, from the first try to the last."""

    def __init__(self, client: Client, log: ClusterLog, writer: str, key: int, rows: Rows) -> None:
        self._client = client
        self._log = log
        self._writer = writer
        self._key = key
        self._rows = rows
        self._parts: list[Part] = []

    async def published(self, calls: HistoryWriter) -> None:
        """Try until it is told where they are."""
        while True:
            try:
                if not self._parts:
                    self._parts = [await self._prepared(*row) for row in self._rows]
                await self._publish(calls)
                return
            except PartGone:
                self._parts = []
            except IthacaError as error:
                if not passes(error):
                    raise
            await asyncio.sleep(RETRY_S)

    async def _prepared(self, session: int, first: int, size: int) -> Part:
        sizes = Random(f"part {session}")
        lengths = [sizes.randint(payload.HEAD_BYTES, RECORD_BYTES_MAX) for _ in range(size)]
        values = [payload.encode(session, first + row, length) for row, length in enumerate(lengths)]
        async with await self._log.open_part(timeout=TIMEOUT_S) as writer:
            for start in range(0, size, 64):
                await writer.append_many(values[start : start + 64], timeout=TIMEOUT_S)
            return await writer.finish(timeout=TIMEOUT_S)

    async def _publish(self, calls: HistoryWriter) -> None:
        invoked = time.monotonic_ns()
        calls.write(self._event(invoked, "info"))
        calls.flush()
        history = self._client.history
        try:
            published: Published = await self._log.publish(
                self._key, self._parts, writer=self._writer, timeout=TIMEOUT_S
            )
        except IthacaError as error:
            history.write(self._event(invoked, "info" if error.outcome_unknown else "fail"))
            raise
        history.write(self._event(invoked, "ok", published.position))

    def _event(self, invoked: int, outcome: Outcome, position: int | None = None) -> Publish:
        key = f"{self._writer}/{self._key}"
        return Publish(key, self._rows, invoked, time.monotonic_ns(), outcome, position)
