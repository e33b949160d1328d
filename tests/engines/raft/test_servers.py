"""Which server leads, as several tasks of one handle learn it, and give it up."""

from typing import Any, cast

import pytest

from ithaca.client.deadline import Deadline
from ithaca.engines.raft.client.links import Link, Links
from ithaca.engines.raft.client.servers import Servers
from ithaca.engines.raft.messages import GetLog, LogIs
from ithaca.model.errors import Unavailable
from ithaca.model.view import Address
from ithaca.protocol.codec import Message
from ithaca.protocol.greeting import Redirect
from ithaca.protocol.members import GetMembers

LEADER = Address("10.0.0.1", 7600)
FOLLOWER = Address("10.0.0.2", 7600)
NEXT = Address("10.0.0.3", 7600)


class Answering:
    """Links to one server that leads; `meanwhile` happens while its answers are under way."""

    def __init__(self) -> None:
        self.watch: Any = None
        self.meanwhile: list[Any] = []
        self.asked = 0

    async def link(self, address: Address, timeout_s: float) -> Link:
        assert address == LEADER
        return cast(Link, self)

    async def request(self, message: Message, timeout_s: float) -> "Answering":
        return self

    async def ask(self, message: Message, timeout_s: float) -> "Answering":
        self.asked += 1
        if self.meanwhile:
            self.meanwhile.pop()()
        return self

    @property
    def message(self) -> Message:
        return LogIs(1, 1)


async def test_a_leader_that_is_given_up_while_it_answers_is_looked_for_again() -> None:
    links = Answering()
    servers = Servers((LEADER,), cast(Links, links))
    servers.leader = LEADER
    links.meanwhile = [lambda: servers.lost(LEADER)]
    await servers.log(Deadline(5))
    assert servers.leader is None
    assert await servers.leading_link(Deadline(5)) is cast(Link, links)
    assert servers.leader == LEADER


class Group:
    """Links to three servers: the former leader is gone, and another one leads."""

    def __init__(self) -> None:
        self.watch: Any = None
        self.asked: list[tuple[Address, type]] = []

    async def link(self, address: Address, timeout_s: float) -> Link:
        if address == LEADER:
            raise Unavailable("nobody listens any more")
        return cast(Link, Member(self, address))


class Member:
    def __init__(self, group: Group, address: Address) -> None:
        self._group = group
        self._address = address
        self.message: Message = LogIs(1, 1)

    async def request(self, message: Message, timeout_s: float) -> "Member":
        self._group.asked.append((self._address, type(message)))
        if self._address != NEXT:
            self.message = Redirect(NEXT)
        return self

    ask = request


async def test_a_change_of_leader_costs_one_question_to_each_server_at_the_same_time() -> None:
    group = Group()
    servers = Servers((LEADER, FOLLOWER, NEXT), cast(Links, group))
    servers.leader = LEADER
    servers.lost(LEADER)  # as a broken connection says
    await servers.leading_link(Deadline(5))
    assert servers.leader == NEXT
    assert set(group.asked) == {(FOLLOWER, GetLog), (NEXT, GetLog)}
    assert len(group.asked) == 2
    await servers.ask(GetMembers(), Deadline(5))
    assert group.asked[2:] == [(NEXT, GetMembers)], "it is known from then on"


async def test_who_is_always_given_up_is_said_to_be_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers((LEADER,), cast(Links, Answering()))

    async def answered_and_given_up(deadline: Deadline) -> LogIs:
        return LogIs(1, 1)

    monkeypatch.setattr(servers, "log", answered_and_given_up)
    with pytest.raises(Unavailable, match="no server that leads"):
        await servers.leading_link(Deadline(0))
