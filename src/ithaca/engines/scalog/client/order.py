"""The way to the ordering layer: it finds the leader, follows it when it changes, and keeps the newest view.

Every call goes on until it is answered or its deadline has passed: from one orderer to the next, to where a
`Redirect` points, and around again after a pause. What is proposed may be proposed twice; every entry that a
client proposes may be.
"""

import asyncio
from typing import Any, Protocol

import msgspec

from ithaca.client.candidates import Candidates
from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.links import Links
from ithaca.engines.scalog.client.orderer_search import orderers_known_to_replicas
from ithaca.engines.scalog.messages.appending import FinishPart, GetPart, PartIs
from ithaca.engines.scalog.messages.listing import GetSessions, GetWriters, SessionsAre, WritersAre
from ithaca.engines.scalog.messages.order import (
    AdmissionIs,
    Admit,
    Applied,
    AppliedOutcome,
    GetSession,
    GetTail,
    GetView,
    Propose,
    SessionIs,
    TailReply,
    ViewIs,
)
from ithaca.engines.scalog.messages.requests import Request, entry_of, request_of
from ithaca.engines.scalog.ordering.entries import OrderingEntry, encode_entry
from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.engines.scalog.ordering.prepared.outcomes import StagedPart
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import AuthenticationFailed, IthacaError, Overloaded, ProtocolError, Unavailable, unknown_copy
from ithaca.model.limits import ATTEMPT_TIMEOUT_S
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, ClusterConfiguration, Orderers, View
from ithaca.protocol.codec import Message
from ithaca.protocol.greeting import GetStatus, Redirect, StatusIs
from ithaca.protocol.members import AddOrderer, GetMembers, MembersAre, RemoveOrderer
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.machine import rng


class ViewWatcher(Protocol):
    """Who wants to know which shards there are."""

    def view_changed(self, view: View) -> None:
        """This view is newer than those before."""


class Order:
    """What a client asks the orderers."""

    def __init__(self, links: Links, bootstrap: tuple[Address, ...]) -> None:
        self._links = links
        self._bootstrap = bootstrap
        self._orderers = Orderers()
        self._leader: Address | None = None
        self.view = View()
        """The newest that is known."""
        self.configuration: ClusterConfiguration | None = None
        self._watcher: ViewWatcher | None = None

    @property
    def orderers(self) -> tuple[Address, ...]:
        """All of them, as far as is known."""
        return self._orderers.addresses or self._bootstrap

    def watch(self, watcher: ViewWatcher) -> None:
        """Have somebody told each view that is newer than those before."""
        self._watcher = watcher

    async def refresh(self, deadline: Deadline, at_least: int = 0) -> View:
        """Get the view from any orderer, at this version or a newer one."""
        answer = await self._ask(GetView(at_least), deadline, to_leader=False)
        if not isinstance(answer, ViewIs):
            raise ProtocolError(f"an orderer answered GetView with {type(answer).__name__}")
        if self.configuration is not None and answer.configuration.log != self.configuration.log:
            raise ProtocolError(
                f"the orderers answer for log {answer.configuration.log}, and this handle belongs to log "
                f"{self.configuration.log}: connect again"
            )
        self.configuration = answer.configuration
        self._links.log = answer.configuration.log
        self._learn(Orderers(answer.entry, answer.orderers))
        self._leader = answer.leader or self._leader
        if answer.view.version > self.view.version:
            self.view = answer.view
            if self._watcher is not None:
                self._watcher.view_changed(answer.view)
        return self.view

    async def fresh_view(self, deadline: Deadline) -> View:
        """The view as it is at some time after this call began."""
        newest = (await self.tail(deadline)).view
        if newest > self.view.version:
            await self.refresh(deadline, newest)
        return self.view

    async def tail(self, deadline: Deadline) -> TailReply:
        """Where the log ends, as it was at some time after this call began."""
        answer = await self._ask(GetTail(), deadline)
        if not isinstance(answer, TailReply):
            raise ProtocolError(f"an orderer answered GetTail with {type(answer).__name__}")
        return answer

    async def ask(self, message: Message, deadline: Deadline) -> Message:
        """What the leader answers to a message of all engines, or of one that is built on this one."""
        return await self._ask(message, deadline)

    async def propose(self, entry: OrderingEntry, deadline: Deadline) -> tuple[AppliedOutcome, ...]:
        """Have an entry ordered that a client may ask for, at least once; what came of it."""
        request = request_of(entry)
        answer = await self._ask(request, deadline)
        if not isinstance(answer, Applied):
            raise ProtocolError(f"an orderer answered {type(request).__name__} with {type(answer).__name__}")
        return answer.outcomes

    async def admission(self, shard: int, address: Address, deadline: Deadline) -> AdmissionIs:
        """Have the server at this address become a replica of the shard; how far that is."""
        answer = await self._ask(Admit(shard, address), deadline)
        if not isinstance(answer, AdmissionIs):
            raise ProtocolError(f"an orderer answered Admit with {type(answer).__name__}")
        return answer

    async def status(self, deadline: Deadline) -> dict[str, Any]:
        """What an orderer says of itself, the leader if it is known."""
        return _said(await self._ask(GetStatus(), deadline))

    async def status_at(self, address: Address, deadline: Deadline) -> dict[str, Any]:
        """What the server at this address says of itself."""
        pauses = Backoff()
        while True:
            try:
                return _said(await self._ask_at(address, GetStatus(), deadline))
            except Unavailable:
                if deadline.passed:
                    raise
            await pauses.pause(deadline)

    async def session(self, producer_id: int, deadline: Deadline) -> Session | None:
        """Where a session lives now; None when it has expired."""
        answer = await self._ask(GetSession(producer_id), deadline)
        if not isinstance(answer, SessionIs):
            raise ProtocolError(f"an orderer answered GetSession with {type(answer).__name__}")
        return answer.session

    async def sessions(self, after: int, deadline: Deadline) -> SessionsAre:
        """The next page of the sessions that have names."""
        answer = await self._ask(GetSessions(after), deadline)
        if not isinstance(answer, SessionsAre):
            raise ProtocolError(f"an orderer answered GetSessions with {type(answer).__name__}")
        return answer

    async def writers(self, after: str, deadline: Deadline) -> WritersAre:
        """The next page of the writers that are remembered."""
        answer = await self._ask(GetWriters(after), deadline)
        if not isinstance(answer, WritersAre):
            raise ProtocolError(f"an orderer answered GetWriters with {type(answer).__name__}")
        return answer

    async def part(self, lane: LaneId, token: bytes, deadline: Deadline) -> StagedPart | None:
        """A prepared part; None when it is published or gone."""
        answer = await self._ask(GetPart(lane, token), deadline)
        if not isinstance(answer, PartIs):
            raise ProtocolError(f"an orderer answered GetPart with {type(answer).__name__}")
        return answer.part

    async def finish_part(self, lane: LaneId, token: bytes, length: int, deadline: Deadline) -> None:
        """Wait until a part is durable with this length, and sealed."""
        answer = await self._ask(FinishPart(lane, token, length), deadline)
        if not isinstance(answer, Applied):
            raise ProtocolError(f"an orderer answered FinishPart with {type(answer).__name__}")

    async def members(self, message: AddOrderer | RemoveOrderer | GetMembers, deadline: Deadline) -> MembersAre:
        """The orderers, after the change that is asked for; it is asked for at least once."""
        answer = await self._ask(message, deadline)
        if not isinstance(answer, MembersAre):
            raise ProtocolError(f"an orderer answered {type(message).__name__} with {type(answer).__name__}")
        return answer

    def _learn(self, orderers: Orderers) -> None:
        """One that is behind, or was removed, may know an older list."""
        if orderers.entry >= self._orderers.entry and orderers.addresses:
            self._orderers = orderers

    async def _ask(self, message: Message, deadline: Deadline, *, to_leader: bool = True) -> Message:
        problems: dict[Address, IthacaError] = {}
        is_unknown = False
        pauses = Backoff()
        while True:
            candidates = Candidates(self._candidates(to_leader), problems)
            was_redirected = False
            while not (candidates.tried and deadline.passed) and (address := candidates.next()) is not None:
                try:
                    answer = await self._ask_at(address, message, deadline)
                except (Unavailable, ProtocolError) as error:
                    if isinstance(error, Overloaded) and error.retry_after_s:
                        if deadline.left_s <= error.retry_after_s:
                            raise
                        await asyncio.sleep(error.retry_after_s)  # it is this user that is too fast, not the server
                    problems[address] = error
                    is_unknown = is_unknown or error.outcome_unknown
                    continue
                except IthacaError as error:
                    if is_unknown and not error.outcome_unknown:
                        raise unknown_copy(error) from error  # this attempt was refused; one before may have been heard
                    raise
                if not isinstance(answer, Redirect):
                    if to_leader:
                        self._leader = address
                    return answer
                problems[address] = Unavailable("it knows of no leader")
                was_redirected = True
                self._learn(answer.orderers)
                self._leader = answer.leader
                if answer.leader is not None:
                    del problems[address]
                    candidates.ask_next(answer.leader)
            if deadline.passed or _is_hopeless(candidates):
                failure = _nobody(candidates, deadline)
                failure.outcome_unknown = is_unknown  # of any attempt, not of the last ones alone
                raise failure
            if not was_redirected:
                self._learn(await orderers_known_to_replicas(self._links, self.view, deadline))
            await pauses.pause(deadline)

    async def _ask_at(self, address: Address, message: Message, deadline: Deadline) -> Message:
        # Where only one can be asked, there is nobody to go on to: it gets all the time there is.
        left_s = deadline.left_s if len(self.orderers) == 1 else min(deadline.left_s, ATTEMPT_TIMEOUT_S)
        link = await self._links.link(address, max(left_s, 0.001))
        if isinstance(message, Request) and link.version == 1:
            message = Propose(encode_entry(entry_of(message)))
        return (await link.request(message, max(left_s, 0.001))).message

    def _candidates(self, to_leader: bool) -> list[Address]:
        """Those that are there now as far as is known, each time in another order; then those it began with."""
        candidates, others = list(self._orderers.addresses), list(self._bootstrap)
        rng().shuffle(candidates)
        rng().shuffle(others)
        candidates += others
        if to_leader and self._leader is not None:
            candidates.insert(0, self._leader)
        return candidates


def _said(answer: Message) -> dict[str, Any]:
    if not isinstance(answer, StatusIs):
        raise ProtocolError(f"a server answered GetStatus with {type(answer).__name__}")
    try:
        return msgspec.json.decode(answer.json, type=dict[str, Any])
    except UNDECODABLE as error:
        raise ProtocolError(f"a server says of itself what cannot be read: {error}") from error


def _is_hopeless(candidates: Candidates) -> bool:
    """Whether everybody answers, and nobody as an orderer of this log would."""
    return all(isinstance(candidates.problems.get(address), ProtocolError) for address in candidates.tried)


def _nobody(candidates: Candidates, deadline: Deadline) -> IthacaError:
    names, reasons = ", ".join(sorted(map(str, candidates.tried))), candidates.reasons
    if _is_hopeless(candidates):
        problems = candidates.problems.values()
        if problems and all(isinstance(each, AuthenticationFailed) for each in problems):
            return AuthenticationFailed(reasons)
        return ProtocolError(f"no orderer of this log is at {names}: {reasons}")
    return Unavailable(
        f"the ordering layer did not answer at {names} within {deadline.timeout_s:.3g} s"
        + (f" ({reasons})" if reasons else " (no leader)")
    )
