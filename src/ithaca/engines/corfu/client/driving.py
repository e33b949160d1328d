"""Running flows: each effect is performed over connections, and its answer sent back into the flow."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ithaca.engines.corfu.client.links import Links
from ithaca.engines.corfu.client.tokens import TokenRequests
from ithaca.engines.corfu.messages import Decide, heard_answer, said_call
from ithaca.engines.corfu.sequencing.calls import (
    CallRefused,
    GetProjection,
    Known,
    SequencerCall,
    TakeTokens,
    UnitCall,
)
from ithaca.engines.corfu.sequencing.commands import GetSession, GetSessions
from ithaca.engines.corfu.sequencing.flows.flow import (
    NO_ANSWER,
    AskRaft,
    AskSequencer,
    AskUnit,
    AskUnits,
    Done,
    Effect,
    Flow,
    NoAnswer,
    Pause,
    Steps,
)
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge
from ithaca.model.errors import ProtocolError, StorageFull, Unavailable
from ithaca.model.view import Address
from ithaca.runtime.machine import wall_us

T = TypeVar("T")


class Driver:
    """Runs the flows of one handle."""

    def __init__(self, links: Links, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self._links = links
        self._tokens = TokenRequests(self._ask)

    async def run(self, steps: Steps[T], *, by_administrator: bool = False) -> T:
        """The result of a flow, of which the leader is told whether an administrator has asked for it."""
        flow = Flow(steps)
        event: object = None
        while True:
            effect = flow.step(event)[0]
            if isinstance(effect, Done):
                return effect.result
            if by_administrator and isinstance(effect, AskRaft):
                event = await self._ask_raft(effect, by_administrator=True)
            else:
                event = await self._perform(effect)

    async def _perform(self, effect: Effect) -> object:
        match effect:
            case AskUnit(unit, call):
                return await self._ask_unit(unit, call)
            case AskUnits(asked):
                return tuple(await asyncio.gather(*(self._ask_unit(unit, call) for unit, call in asked)))
            case AskSequencer(sequencer, call):
                address = dict(self.knowledge.known.sequencers).get(sequencer)
                if address is None:
                    return NO_ANSWER
                if isinstance(call, TakeTokens):
                    return await _or_no_answer(self._tokens.take(address, call))
                return await _or_no_answer(self._ask(address, call))
            case AskRaft():
                return await self._ask_raft(effect)
            case Pause(ms):
                await asyncio.sleep(ms / 1000)
                return None

    async def _ask_raft(self, effect: AskRaft, *, by_administrator: bool = False) -> object:
        call = effect.call
        if isinstance(call, GetProjection | GetSession | GetSessions):
            return await _or_no_answer(self._links.ask_leader(call))
        return await _or_no_answer(self._links.ask_leader(Decide(call, by_administrator)))

    async def _ask(self, address: Address, call: SequencerCall) -> object:
        return (await self._links.ask(address, call)).message

    async def _ask_unit(self, unit: int, call: UnitCall) -> object:
        member = self.knowledge.projection.member(unit)
        return NO_ANSWER if member is None else await _or_no_answer(self._answer_of(member.address, call))

    async def _answer_of(self, address: Address, call: UnitCall) -> object:
        message, payload = said_call(call)
        try:
            received = await self._links.ask(address, message, payload)
        except StorageFull as error:
            return CallRefused(str(error))
        return heard_answer(received.message, received.payload)


async def _or_no_answer(asking: Coroutine[Any, Any, object]) -> object:
    """What comes of it, or for how long nothing did."""
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    try:
        return await asking
    except Unavailable as error:
        return NoAnswer(int((loop.time() - begun_s) * 1000), isinstance(error.__cause__, ConnectionRefusedError))


async def first_knowledge(links: Links) -> Knowledge:
    """What the Raft group says to whoever knows nothing yet; `Unavailable` while the log is not founded."""
    answer = await links.ask_leader(GetProjection())
    if not isinstance(answer, Known):
        raise ProtocolError(f"the leader answered with {type(answer).__name__}, and not with the projection")
    return knowledge_of(answer)


def knowledge_of(known: Known) -> Knowledge:
    """What a handle knows when it has been told this."""
    return Knowledge(known, sequencers=tuple(number for number, _ in known.sequencers), now_us=wall_us)
