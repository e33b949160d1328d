"""Which servers there are, and which of them leads: found by asking, and remembered until it is wrong."""

from ithaca.client.candidates import Candidates
from ithaca.client.deadline import Deadline
from ithaca.engines.raft.client.links import Link, Links
from ithaca.engines.raft.messages import GetLog, LogIs
from ithaca.model.errors import ProtocolError, Unavailable
from ithaca.model.limits import ATTEMPT_TIMEOUT_S
from ithaca.model.view import Address, Orderers
from ithaca.protocol.codec import Message
from ithaca.protocol.greeting import Redirect
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.machine import rng


class Servers:
    """As one handle knows them."""

    def __init__(self, bootstrap: tuple[Address, ...], links: Links) -> None:
        self._bootstrap = bootstrap
        self._orderers = Orderers()
        self.links = links
        self.leader: Address | None = None
        """As far as is known."""

    @property
    def addresses(self) -> list[Address]:
        """Those that there are now as far as is known, then those that the handle began with."""
        return list(dict.fromkeys((*self._orderers.addresses, *self._bootstrap)))

    @property
    def members(self) -> tuple[Address, ...]:
        """Those that there are, as far as is known."""
        return self._orderers.addresses or self._bootstrap

    def lost(self, address: Address) -> None:
        """The server there is gone, or does not lead."""
        if self.leader == address:
            self.leader = None

    async def ask(self, message: Message, deadline: Deadline) -> Message:
        """The leader's answer; `Unavailable` when nobody gave one in time. What may have been done says so."""
        pauses, is_unknown = Backoff(), False
        while True:
            candidates = Candidates(self._candidates())
            while not deadline.passed and (address := candidates.next()) is not None:
                try:
                    answer = await self._ask_at(address, message, deadline)
                except (Unavailable, ProtocolError) as error:
                    candidates.problems[address] = error
                    is_unknown = is_unknown or error.outcome_unknown
                    self.lost(address)
                    continue
                if not isinstance(answer, Redirect):
                    self.leader = address
                    return answer
                candidates.problems[address] = Unavailable("it knows of no leader")
                self._learn(answer, address)
                if answer.leader is not None:
                    candidates.ask_next(answer.leader)
            if deadline.passed:
                reasons = candidates.reasons
                failure = Unavailable(
                    f"no server that leads answered within {deadline.timeout_s:.3g} s"
                    + (f" ({reasons})" if reasons else "")
                )
                failure.outcome_unknown = is_unknown
                raise failure
            await pauses.pause(deadline)

    async def log(self, deadline: Deadline) -> LogIs:
        """Where the log begins and ends, as it was at some time since this call."""
        answer = await self.ask(GetLog(), deadline)
        if not isinstance(answer, LogIs):
            raise ProtocolError(f"a server answered GetLog with {type(answer).__name__}")
        return answer

    async def leading_link(self, deadline: Deadline) -> Link:
        """A link to the leader: the one that is known, or the one that is found."""
        if self.leader is None:
            await self.log(deadline)
        assert self.leader is not None
        return await self.links.link(self.leader, max(min(deadline.left_s, ATTEMPT_TIMEOUT_S), 0.001))

    async def _ask_at(self, address: Address, message: Message, deadline: Deadline) -> Message:
        left_s = max(min(deadline.left_s, ATTEMPT_TIMEOUT_S), 0.001)
        link = await self.links.link(address, left_s)
        return (await link.request(message, timeout_s=max(min(deadline.left_s, left_s), 0.001))).message

    def _learn(self, redirect: Redirect, by: Address) -> None:
        self.leader = redirect.leader if redirect.leader != by else None
        if redirect.orderers.entry >= self._orderers.entry and redirect.orderers.addresses:
            self._orderers = redirect.orderers

    def _candidates(self) -> list[Address]:
        candidates = self.addresses
        rng().shuffle(candidates)
        if self.leader is not None:
            candidates.insert(0, self.leader)
        return candidates
