"""A shard that cannot order: its lanes are closed if there is elsewhere to go, and come back when its replicas do.

A small model of everything that matters for that: the real order, the real decisions of a term, and replicas that are
paused, resumed and started again, lose their link, and join by the rules of `replica.standing`.
"""

from itertools import product
from random import Random

import pytest
from tests.ordering.building import Driver

from ithaca.engines.scalog.ordering.decisions.failures import LOOKS, Act, Failures
from ithaca.engines.scalog.ordering.decisions.joins import opened_lane
from ithaca.engines.scalog.ordering.decisions.spares import Spares
from ithaca.engines.scalog.ordering.entries import CloseLane, Finalize, OpenLane, OrderingEntry
from ithaca.model.config.failures import FailurePolicy
from ithaca.model.errors import IthacaError, WrongLane
from ithaca.model.positions import LaneId
from ithaca.model.view import Shard

DETECTION_MS = 3000
LOOK_US = DETECTION_MS * 1000 // LOOKS
MEMBERS = [(shard, replica) for shard in range(2) for replica in range(2)]
OURS = MEMBERS[:2]
"""The replicas of the shard to which things happen; the other one is well."""


class Server:
    """A replica, as far as lanes go."""

    def __init__(self) -> None:
        self.boot = 1
        self.lane: LaneId | None = None
        self.is_paused = False
        self.is_joined = False
        self.view: Shard | None = None


class World:
    """Two shards of two replicas, and one leader after the other."""

    def __init__(self, shards: int = 2) -> None:
        self.driver = Driver()
        self.now_us = 0
        self.servers = {member: Server() for member in MEMBERS[: 2 * shards]}
        for number in range(shards):
            for lane in self.driver.shard(number):
                server = self.servers[number, lane.replica]
                server.lane = lane
        self.entries_before = 0
        self.new_leader()

    def shard(self, number: int = 0) -> Shard:
        return self.driver.state.shards.by_number[number]

    def open_lanes(self) -> list[LaneId]:
        return self.shard().open_lanes()

    def new_leader(self) -> None:
        waiting: Spares[str] = Spares(self.driver.state)
        self.term = Failures(FailurePolicy("none", DETECTION_MS), self.driver.state, waiting, self.now_us)
        for server in self.servers.values():
            server.is_joined = False
        for member in MEMBERS[2 : len(self.servers)]:
            self.join(member)

    def pause(self, member: tuple[int, int]) -> None:
        self.servers[member].is_paused = True

    def resume(self, member: tuple[int, int]) -> None:
        self.servers[member].is_paused = False

    def restart(self, member: tuple[int, int]) -> None:
        server = self.servers[member]
        server.is_paused = server.is_joined = False
        server.boot, server.lane = server.boot + 1, None

    def lose_link(self, member: tuple[int, int]) -> None:
        self.servers[member].is_joined = False

    def join(self, member: tuple[int, int]) -> None:
        """As `JoinRequests._join_replica` has it."""
        server, (number, replica) = self.servers[member], member
        if server.is_paused or server.is_joined:
            return
        known = self.shard(number).find(replica)
        assert known is not None
        if self.term.availability.may_open(number, replica, server.boot):
            lane = opened_lane(self.driver.apply(OpenLane(number, replica, server.boot)))
            if isinstance(lane, WrongLane):
                server.boot, server.lane = server.boot + 1, None  # and it joins again
                return
            assert not isinstance(lane, IthacaError), lane
            server.lane = lane
        elif known.is_open:
            self.driver.apply(CloseLane(LaneId(number, replica, known.incarnation)))
        server.is_joined, server.view = True, self.shard(number)
        self.term.heard(number, replica, is_complete=False)

    def hear_news(self, member: tuple[int, int]) -> None:
        """As `ReplicaStanding._standing` has it."""
        server, now = self.servers[member], self.shard(member[0])
        if server.is_paused or not server.is_joined or server.view is now:
            return
        before, server.view = server.view, now
        me = now.find(member[1])
        assert before is not None
        assert me is not None
        if server.lane is not None and server.lane.incarnation == me.incarnation and me.is_open:
            return
        gained = {lane for lane in now.open_lanes() if lane.replica != me.replica} - set(before.open_lanes())
        if before.find(me.replica) != me or gained:
            server.is_joined = False

    def ask_again(self, member: tuple[int, int]) -> None:
        server = self.servers[member]
        if not server.is_paused and server.is_joined and server.lane not in self.shard(member[0]).open_lanes():
            server.is_joined = False

    def look(self, times: int = LOOKS) -> list[OrderingEntry]:
        """So much time passes; what was ordered meanwhile."""
        done: list[OrderingEntry] = []
        for _ in range(times):
            for member, server in self.servers.items():
                if server.is_joined and not server.is_paused:
                    self.term.heard(*member)
            self.now_us += LOOK_US
            effects = self.term.look(self.now_us)
            while effects:
                effect = effects.pop(0)
                assert isinstance(effect, Act), effect
                done.append(effect.entry)
                effects += self.term.ordered(effect.shard, self.driver.apply(effect.entry))
        return done

    def settle(self) -> list[OrderingEntry]:
        """Long enough for everything to come to rest; what the leader has ordered in the second half of it."""
        done: list[OrderingEntry] = []
        for turn in range(16):
            for member in 4 * [*self.servers]:  # to join again takes much less time than to be missed
                self.hear_news(member)
                self.join(member)
            if turn % 6 == 5:
                for member in self.servers:
                    self.ask_again(member)
            done += self.look() if turn >= 8 else self.look()[:0]
        return done


Deed = tuple[str, tuple[int, int] | None]
DEEDS: list[Deed] = [
    *((name, member) for name in ("pause", "resume", "restart", "lose_link", "join", "hear_news") for member in OURS),
    ("look", None),
    ("new_leader", None),
]


def play(deeds: list[Deed]) -> World:
    world = World()
    for member in OURS:
        world.join(member)
    for name, whom in deeds:
        getattr(world, name)(*([] if whom is None else [whom]))
    return world


def check_ends(deeds: list[Deed]) -> None:
    """Whatever happened: with everybody back both replicas write again; with one away nobody does, and all is quiet."""
    world = play(deeds)
    for member in OURS:
        world.resume(member)
    assert world.settle() == [], deeds
    assert [lane.replica for lane in world.open_lanes()] == [0, 1], deeds
    assert all(world.servers[member].lane in world.open_lanes() for member in OURS), deeds
    world = play(deeds)
    world.resume((0, 0))
    world.pause((0, 1))
    entries = world.settle()
    count = len(world.driver.entries)
    assert (entries, world.open_lanes()) == ([], []), deeds
    world.settle()
    assert len(world.driver.entries) == count, f"nothing comes to rest after {deeds}"


def test_whatever_happens_at_first_the_shard_comes_to_rest() -> None:
    for deeds in product(DEEDS, repeat=2):
        check_ends(list(deeds))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_for_long_the_shard_comes_to_rest(seed: int) -> None:
    random = Random(seed)
    for _ in range(15):
        check_ends(random.choices(DEEDS, k=random.randint(3, 14)))


def test_nothing_is_closed_where_there_is_nowhere_to_go() -> None:
    world = World(shards=1)
    for member in OURS:
        world.join(member)
    world.pause((0, 1))
    assert world.settle() == []
    assert len(world.open_lanes()) == 2


def test_the_lanes_of_the_silent_go_first_and_all_of_them_at_once() -> None:
    world = play([])
    world.pause((0, 1))
    assert world.look(LOOKS - 1) == []
    assert world.look(1) == [CloseLane(LaneId(0, 1, 1)), CloseLane(LaneId(0, 0, 1))]
    assert "of replica 0/1 nothing is heard, and 2 must" in world.term.availability.why_stuck(0)


def test_a_shard_that_is_about_to_end_is_nowhere_to_go() -> None:
    world = play([])
    world.driver.apply(Finalize(1, cuts=100))
    world.pause((0, 1))
    assert world.settle() == []


def test_who_joins_first_after_another_leader_came_waits_for_its_peer() -> None:
    world = play([("pause", (0, 1)), ("look", None), ("hear_news", (0, 0)), ("join", (0, 0)), ("new_leader", None)])
    world.join((0, 0))
    assert world.servers[0, 0].is_joined
    assert world.open_lanes() == []
