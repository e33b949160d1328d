"""What measurements ask units and sequencers themselves: rows that are taken and not written, or only half."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ithaca.engines.corfu.client.driving import first_knowledge
from ithaca.engines.corfu.client.links import Links
from ithaca.engines.corfu.messages import heard_answer, said_call
from ithaca.engines.corfu.sequencing.calls import NotReady, RowWritten, TakeTokens, Token, Tokens, Want, Write
from ithaca.engines.corfu.sequencing.entries import entry_of
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge
from ithaca.model.addresses import parse_address
from ithaca.model.errors import Unavailable
from ithaca.model.view import Address
from ithaca.wire.batch import Batch

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

    @property
    def sequencer(self) -> int:
        """The number of the orderer that hands out rows."""
        return self._projection.sequencer

    async def tokens(self, wants: tuple[Want, ...]) -> tuple[Token, ...]:
        """A row for each of these; asks again while Raft has to grant more."""
        while True:
            answer = (await self._links.ask(self._sequencer, TakeTokens(self._projection.epoch, wants))).message
            if isinstance(answer, Tokens):
                return answer.tokens
            if not isinstance(answer, NotReady):
                raise Unavailable(f"the sequencer hands out no rows: {answer}")
            await asyncio.sleep(NOT_READY_S)

    async def token(self, producer: int, after: int = -1) -> Token:
        """One row for a session of this measurement."""
        return (await self.tokens((Want(FIRST_PRODUCER + producer, 1, after),)))[0]

    async def write_head(self, token: Token, batch: Batch) -> None:
        """Write the first unit of the chain, and no other."""
        projection = self._projection
        member = projection.member(projection.chain(token.row)[0])
        assert member is not None
        message, payload = said_call(Write(projection.epoch, token.row, entry_of(batch, token.time_us)))
        received = await self._links.ask(member.address, message, payload)
        answer = heard_answer(received.message, received.payload)
        if not isinstance(answer, RowWritten):
            raise Unavailable(f"row {token.row} is not written: {answer}")


def addresses_of(bootstrap: str) -> list[Address]:
    return [parse_address(each) for each in bootstrap.split(",")]


@asynccontextmanager
async def asking(bootstrap: str) -> AsyncIterator[Asking]:
    """Connections of a measurement; closed at its end."""
    links = Links(addresses_of(bootstrap))
    try:
        yield Asking(links, await first_knowledge(links))
    finally:
        links.close()
