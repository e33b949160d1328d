"""Which servers there are, and which of them leads: found by asking, and remembered until it is wrong.

Only an answer that a leader alone gives makes a server the leader here. All are asked at the same time, so one that is
stopped, and whose kernel still takes connections, holds up nobody; and whoever owes an answer for `LEADER_DOUBT_S` is
doubted: if another server proves that it leads, the connection is given up, and what waits on it is sent there.
"""

import asyncio

from ithaca.client.deadline import Deadline
from ithaca.engines.raft.client.links import Link, Links
from ithaca.engines.raft.messages import GetLog, LogIs
from ithaca.model.errors import IthacaError, ProtocolError, Unavailable
from ithaca.model.limits import ATTEMPT_TIMEOUT_S, LEADER_DOUBT_S, LEADER_DOUBT_S_MAX
from ithaca.model.view import Address, Orderers
from ithaca.protocol.codec import Message
from ithaca.protocol.greeting import Redirect
from ithaca.protocol.members import MembersAre
from ithaca.runtime.backoff import Backoff

Problems = dict[Address, IthacaError]


class Servers:
    """As one handle knows them."""

    def __init__(self, bootstrap: tuple[Address, ...], links: Links) -> None:
        self._bootstrap = bootstrap
        self._orderers = Orderers()
        self.links = links
        links.watch = self._watch
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
        pauses, is_unknown, patience_s = Backoff(), False, LEADER_DOUBT_S
        problems: Problems = {}
        while True:
            if self.leader is None:
                found = await self._find(self.addresses, deadline, patience_s, problems)
                patience_s = min(2 * patience_s, ATTEMPT_TIMEOUT_S)
                if found is not None:
                    self.leader, said = found
                    if isinstance(message, GetLog):
                        return said
            if (address := self.leader) is not None:
                try:
                    answer = await self._ask_at(address, message, deadline)
                except (Unavailable, ProtocolError) as error:
                    problems[address] = error
                    is_unknown = is_unknown or error.outcome_unknown
                else:
                    if not isinstance(answer, Redirect):
                        return answer
                    self._learn(answer)
                self.lost(address)
                if self.leader is not None:
                    continue  # it was doubted meanwhile
            if deadline.passed:
                raise _nobody(problems, deadline, is_unknown)
            await pauses.pause(deadline)

    async def log(self, deadline: Deadline) -> LogIs:
        """Where the log begins and ends, as it was at some time since this call."""
        answer = await self.ask(GetLog(), deadline)
        if not isinstance(answer, LogIs):
            raise ProtocolError(f"a server answered GetLog with {type(answer).__name__}")
        return answer

    async def ask_members(self, question: Message, deadline: Deadline) -> MembersAre:
        """What the leader says of its group, now or after a change; from then on it is known here."""
        answer = await self.ask(question, deadline)
        if not isinstance(answer, MembersAre):
            raise ProtocolError(f"a server answered a question about its group with {type(answer).__name__}")
        self._orderers = Orderers(self._orderers.entry, tuple(each.address for each in answer.members))
        return answer

    async def leading_link(self, deadline: Deadline) -> Link:
        """A link to the leader: the one that is known, or the one that is found."""
        while (address := self.leader) is None:
            await self.log(deadline)
            if self.leader is None and deadline.passed:  # others have given up who answered
                raise _nobody({}, deadline, False)
        return await self.links.link(address, _attempt_s(deadline))

    async def _ask_at(self, address: Address, message: Message, deadline: Deadline) -> Message:
        link = await self.links.link(address, _attempt_s(deadline))
        return (await link.ask(message, timeout_s=_attempt_s(deadline))).message

    def _learn(self, redirect: Redirect) -> None:
        if redirect.orderers.entry >= self._orderers.entry and redirect.orderers.addresses:
            self._orderers = redirect.orderers

    # Who leads

    async def _find(
        self, addresses: list[Address], deadline: Deadline, patience_s: float, problems: Problems
    ) -> tuple[Address, LogIs] | None:
        """Ask all of them, and those that they name, until one proves that it leads.

        When some have answered, the others have `patience_s` left.
        """
        asking: dict[asyncio.Task[Message], Address] = {}

        def ask(address: Address) -> None:
            task = asyncio.create_task(self._ask_log_at(address, deadline))
            task.add_done_callback(_look_at)
            asking[task] = address

        for address in addresses:
            ask(address)
        named, left_s = set(addresses), None
        try:
            while asking:
                done, _ = await asyncio.wait(asking, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    return None
                left_s = patience_s
                for task in [each for each in asking if each in done]:
                    address = asking.pop(task)
                    answer = _answer_of(task)
                    if isinstance(answer, LogIs):
                        return address, answer
                    if isinstance(answer, IthacaError):
                        problems[address] = answer
                    if not isinstance(answer, Redirect):
                        continue
                    problems[address] = Unavailable("it does not lead")
                    self._learn(answer)
                    if answer.leader is not None and answer.leader not in named:
                        named.add(answer.leader)
                        ask(answer.leader)
            return None
        finally:
            for task in asking:
                task.cancel()

    async def _ask_log_at(self, address: Address, deadline: Deadline) -> Message:
        """Whoever does not lead may keep the question until somebody does, and is not doubted for that."""
        link = await self.links.link(address, _attempt_s(deadline))
        return (await link.request(GetLog(), timeout_s=_attempt_s(deadline))).message

    async def _watch(self, link: Link) -> None:
        """While a server owes answers: give it up if it says nothing, and another one proves that it leads."""
        pause_s = LEADER_DOUBT_S
        while link.is_open and link.is_owed:
            heard = link.heard
            await asyncio.sleep(pause_s)
            if link.heard != heard or not link.is_owed:
                pause_s = LEADER_DOUBT_S
                continue
            others = [each for each in self.addresses if each != link.address]
            found = await self._find(others, Deadline(LEADER_DOUBT_S_MAX), LEADER_DOUBT_S, {})
            if found is not None and found[0] != link.address and link.heard == heard:
                self.leader = found[0]
                link.give_up(Unavailable(f"{link.address} is silent, and {self.leader} leads"))
                return
            pause_s = min(2 * pause_s, LEADER_DOUBT_S_MAX)


def _attempt_s(deadline: Deadline) -> float:
    return max(min(deadline.left_s, ATTEMPT_TIMEOUT_S), 0.001)


def _look_at(task: "asyncio.Task[Message]") -> None:
    """Perhaps nobody waits for it any more."""
    if not task.cancelled():
        task.exception()


def _answer_of(task: "asyncio.Task[Message]") -> Message | IthacaError:
    try:
        return task.result()
    except (Unavailable, ProtocolError) as error:
        return error


def _nobody(problems: Problems, deadline: Deadline, is_unknown: bool) -> Unavailable:
    reasons = "; ".join(f"{address}: {error}" for address, error in problems.items())
    failure = Unavailable(
        f"no server that leads answered within {deadline.timeout_s:.3g} s" + (f" ({reasons})" if reasons else "")
    )
    failure.outcome_unknown = is_unknown
    return failure
