"""What measurements have to do with the engine itself: take rows and leave them, and see when an epoch is ended.

Nobody else of them knows it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from ithaca.client.appending.outgoing import numbered
from ithaca.client.settings import ClientSettings
from ithaca.engines.corfu.client.driving import Driver, first_knowledge
from ithaca.engines.corfu.client.links import Links
from ithaca.engines.corfu.client.log import CorfuLog
from ithaca.engines.corfu.messages import heard_answer, said_call
from ithaca.engines.corfu.sequencing.calls import NotReady, RowWritten, Seal, TakeTokens, Token, Tokens, Want, Write
from ithaca.engines.corfu.sequencing.entries import entry_of
from ithaca.engines.corfu.sequencing.flows.flow import AskUnits, Effect
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge
from ithaca.engines.corfu.sequencing.limits import HOLE_MS, JUNK_MS
from ithaca.engines.corfu.sequencing.rows import first_position
from ithaca.model.addresses import parse_address
from ithaca.model.errors import Unavailable
from ithaca.model.interface.awaited import ClusterLog
from ithaca.runtime.machine import wall_us
from ithaca.wire.build import build

UNWRITTEN, HALF_WRITTEN = "unwritten", "half written"
PATIENCE_MS = {UNWRITTEN: JUNK_MS, HALF_WRITTEN: HOLE_MS}
"""How long a reader leaves a hole of each kind to its writer."""
FIRST_PRODUCER = 1 << 40
"""Sessions of measurements: no handle has such a number."""
NOT_READY_S = 0.001
"""Pause when Raft has to grant more rows."""


class Asking:
    """Connections to a cluster, under the epoch that holds when they are made."""

    def __init__(self, links: Links, knowledge: Knowledge) -> None:
        self._links = links
        self._projection = knowledge.projection
        self._sequencer = dict(knowledge.known.sequencers)[self._projection.sequencer]
        self._holes = 0

    @property
    def sequencer(self) -> int:
        """The number of the orderer that hands out rows."""
        return self._projection.sequencer

    async def rows(self, sessions: Sequence[int], after: Sequence[int]) -> list[int]:
        """A row for each of these sessions, behind the last one that each got."""
        wants = tuple(Want(FIRST_PRODUCER + each, 1, row) for each, row in zip(sessions, after, strict=True))
        return [token.row for token in await self._tokens(wants)]

    async def hole(self, kind: str, value: bytes) -> int:
        """Take a row and leave it; where it begins. Half written means: by the first unit of its chain."""
        self._holes += 1
        producer = 2 * FIRST_PRODUCER + self._holes
        (token,) = await self._tokens((Want(producer, 1, -1),))
        if kind == HALF_WRITTEN:
            await self._write_head(token, producer, value)
        return first_position(token.row)

    async def _tokens(self, wants: tuple[Want, ...]) -> tuple[Token, ...]:
        while True:
            answer = (await self._links.ask(self._sequencer, TakeTokens(self._projection.epoch, wants))).message
            if isinstance(answer, Tokens):
                return answer.tokens
            if not isinstance(answer, NotReady):
                raise Unavailable(f"the sequencer hands out no rows: {answer}")
            await asyncio.sleep(NOT_READY_S)

    async def _write_head(self, token: Token, producer: int, value: bytes) -> None:
        projection = self._projection
        member = projection.member(projection.chain(token.row)[0])
        assert member is not None
        batch = numbered(build([value], None, timestamp_us=wall_us(), compress="none"), (producer, 1, 1))
        message, payload = said_call(Write(projection.epoch, token.row, entry_of(batch, token.time_us)))
        received = await self._links.ask(member.address, message, payload)
        answer = heard_answer(received.message, received.payload)
        if not isinstance(answer, RowWritten):
            raise Unavailable(f"row {token.row} is not written: {answer}")


@asynccontextmanager
async def asking(bootstrap: str) -> AsyncIterator[Asking]:
    """Connections of a measurement; closed at its end."""
    links = _links(bootstrap)
    try:
        yield Asking(links, await first_knowledge(links))
    finally:
        links.close()


async def sequencer_of(bootstrap: str) -> str:
    """The name of the server that hands out rows."""
    async with asking(bootstrap) as asked:
        return f"orderer-{asked.sequencer}"


class SealingDriver(Driver):
    """Notes when its handle has decided that the epoch must end."""

    sealed_s: float | None = None

    async def _perform(self, effect: Effect) -> object:
        seals = isinstance(effect, AskUnits) and any(isinstance(call, Seal) for _, call in effect.asked)
        if seals and self.sealed_s is None:
            self.sealed_s = time.monotonic()
        return await super()._perform(effect)


@asynccontextmanager
async def observed_log(bootstrap: str, timeout_s: float) -> AsyncIterator[tuple[ClusterLog, SealingDriver]]:
    """A handle as any other, and what it has decided."""
    links = _links(bootstrap)
    driver = SealingDriver(links, await first_knowledge(links))
    log = CorfuLog(links, driver, ClientSettings(timeout_s=timeout_s), "fsync")
    try:
        yield log, driver
    finally:
        await log.close()


def _links(bootstrap: str) -> Links:
    return Links([parse_address(each) for each in bootstrap.split(",")])
