"""A leader whose connections break is followed by another at once, and one that is alive after all stays."""

from tests.raft.cluster import Cluster

from ithaca.raft.events import ChangeMembership, Role, Settings, Unreachable
from ithaca.raft.messages import first_state

SETTINGS = Settings(election_timeout_ms=1000, heartbeat_ms=100, succession_ms=100)


def led_by_three() -> Cluster:
    cluster = Cluster(1, 2, 3, settings=SETTINGS)
    cluster.elect(3)
    return cluster


def test_the_first_of_those_left_is_elected_before_the_second_would_stand() -> None:
    cluster = led_by_three()
    for server in (1, 2):
        cluster.step(server, Unreachable(3))
    del cluster.cores[3]
    assert [cluster.cores[server].leader for server in (1, 2)] == [None, None]
    for server in (1, 2):
        cluster.tick(server, 49)
    assert not cluster.network, "nobody stands yet"
    for server in (1, 2):
        cluster.tick(server, 1)
    cluster.settle()
    assert [cluster.role(server) for server in (1, 2)] == [Role.LEADER, Role.FOLLOWER]
    assert cluster.cores[2].leader == 1


def test_the_second_stands_when_the_first_does_not() -> None:
    cluster = led_by_three()
    cluster.step(1, Unreachable(3))
    cluster.step(2, Unreachable(3))
    del cluster.cores[3]
    cluster.tick(2, 150)
    cluster.settle()
    assert cluster.role(2) is Role.LEADER


def test_whoever_lost_the_leader_alone_elects_nobody_and_hears_it_again() -> None:
    cluster = led_by_three()
    term = cluster.cores[3].term
    cluster.step(1, Unreachable(3))
    cluster.tick(1, 50)
    assert cluster.role(1) is Role.PRE_CANDIDATE
    cluster.settle()
    assert cluster.role(3) is Role.LEADER
    cluster.tick(3, 100)
    cluster.settle()
    assert (cluster.role(1), cluster.cores[1].leader, cluster.cores[1].term) == (Role.FOLLOWER, 3, term)


def test_a_learner_that_loses_the_leader_stands_no_sooner() -> None:
    cluster = led_by_three()
    cluster.add(4, first_state(1, 2, 3))
    cluster.step(3, ChangeMembership(1, "add learner", 4))
    cluster.settle()
    cluster.tick(3, 100)
    cluster.settle()
    node = cluster.cores[4].node
    assert (node.leader, node.is_voter) == (3, False)
    before = node.election_deadline_ms
    cluster.step(4, Unreachable(3))
    assert (node.leader, node.election_deadline_ms) == (None, before)
