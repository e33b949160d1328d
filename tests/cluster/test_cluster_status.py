"""What is wrong with a cluster, in words."""

from typing import Any

import pytest

from ithaca.cluster.ports import free_ports
from ithaca.cluster.status import ClusterStatus, cluster_status, places_of
from ithaca.engines.scalog.client.admin.status import judged
from ithaca.model.errors import Unavailable
from ithaca.model.health import ServerStatus, lanes_of
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address


def orderer(number: int, **said: Any) -> ServerStatus:
    replicas = [{"replica": 0, "open": True}, {"replica": 1, "open": False}]
    usual = {
        "state": "follower",
        "term": 1,
        "configured": True,
        "tail": 8,
        "first": 2,
        "log": "L",
        "shards": [{"shard": 0, "phase": "live", "replicas": replicas}],
    }
    return ServerStatus(ServerPlace("orderer", number, Address("h", number)), usual | said)


def replica(number: int, **said: Any) -> ServerStatus:
    place = ServerPlace("replica", number, Address("h", 10 + number), 0)
    return ServerStatus(place, {"state": "serving", "log": "L", "lanes": []} | said)


def silent(server: ServerStatus) -> ServerStatus:
    return ServerStatus(server.place, None, "nobody answers")


SHORT = {
    "shard": 0,
    "phase": "live",
    "copies": 2,
    "replicas": [{"replica": number, "open": True, "address": f"h:{10 + number}"} for number in range(2)],
}
HEALTHY = [orderer(1, state="leader"), orderer(2), replica(0), replica(1)]


def test_a_healthy_cluster() -> None:
    found = ClusterStatus(HEALTHY).health
    assert found.problems == []
    assert found.warnings == []
    assert (found.first, found.tail, found.log) == (2, 8, "L")
    assert found.leader is HEALTHY[0]
    assert found.unwell == ()


@pytest.mark.parametrize(
    ("servers", "problems"),
    [
        ([*HEALTHY[:3], silent(HEALTHY[3])], ["shard-0-replica-1 does not answer: nobody answers"]),
        ([*HEALTHY[:3], replica(1, state="catching up")], ["shard-0-replica-1 is catching up"]),
        ([*HEALTHY[:3], replica(1, log="M")], ["servers belong to different logs: L, M"]),
        ([*HEALTHY[:3], replica(1, log=None)], []),
        (
            [*HEALTHY[:3], replica(1, damaged=[{"lane": "0-1-1", "kept": None, "repaired": False}])],
            ["shard-0-replica-1 holds damaged records of lane 0-1-1: restart it while its peers are well"],
        ),
        (
            [*HEALTHY[:3], replica(1, damaged=[{"lane": "0-1-1", "kept": "0-1-1.damaged-1", "repaired": False}])],
            ["shard-0-replica-1 lacks lane 0-1-1, which was damaged, until a peer has sent it"],
        ),
        ([*HEALTHY[:3], replica(1, damaged=[{"lane": "0-1-1", "kept": "kept", "repaired": True}])], []),
        ([*HEALTHY[:3], replica(1, shard=0, replica=7)], ["shard-0-replica-1 answers as replica 0/7"]),
        (
            [orderer(1, state="leader", shards=[SHORT]), *HEALTHY[1:3], silent(HEALTHY[3])],
            [
                "shard-0-replica-1 does not answer: nobody answers",
                "shard 0 orders nothing: replica 0/1 is silent, and 2 must have synced what is ordered",
            ],
        ),
        ([orderer(1, state="leader", shards=[SHORT])], []),  # its replicas were not asked
        (
            [orderer(1, shards=[SHORT], applied=9), orderer(2, shards=[], applied=8), replica(0), silent(replica(1))],
            [
                "shard-0-replica-1 does not answer: nobody answers",
                "no orderer leads, so nothing is ordered: more than half of the orderers must be up",
                "shard 0 orders nothing: replica 0/1 is silent, and 2 must have synced what is ordered",
            ],
        ),
        ([*HEALTHY, silent(orderer(0))], ["orderer at h:0 does not answer: nobody answers"]),
        (
            [orderer(1), *HEALTHY[1:]],
            ["no orderer leads, so nothing is ordered: more than half of the orderers must be up"],
        ),
        ([orderer(1, state="leader", configured=False)], ["the cluster is not configured yet"]),
        (
            [orderer(1, state="leader", shards=[{"shard": 4, "phase": "live", "replicas": [{"open": False}]}])],
            ["shard 4 takes no appends: none of its replicas has an open lane"],
        ),
        (
            [orderer(1, state="leader", shards=[{"shard": 4, "phase": "finalized", "replicas": [{"open": False}]}])],
            [],
        ),
    ],
)
def test_what_is_wrong_is_said(servers: list[ServerStatus], problems: list[str]) -> None:
    assert ClusterStatus(servers).problems() == problems
    assert judged(servers).problems == tuple(problems), "`log.status()` says the same"


def test_a_fenced_server_is_not_only_silent() -> None:
    found = ClusterStatus([*HEALTHY[:3], silent(HEALTHY[3])]).fenced({"shard-0-replica-1"})
    (problem,) = found.problems()
    assert [each.state for each in found.servers][3] == "fenced"
    assert problem.startswith("shard-0-replica-1 has fenced itself")


def test_of_two_leaders_the_newer_one_counts() -> None:
    status = ClusterStatus([orderer(1, state="leader", term=3, tail=5), orderer(2, state="leader", term=4, tail=6)])
    assert status.health.tail == 6


def test_without_a_leader_nothing_is_known_of_the_tail() -> None:
    status = ClusterStatus([orderer(1), silent(orderer(2))]).health
    assert (status.first, status.tail, status.leader) == (None, None, None)


async def test_servers_that_are_not_there() -> None:
    (port,) = free_ports(1)
    address = Address("127.0.0.1", port)
    status = await cluster_status([ServerPlace("orderer", 1, address)], None)
    assert status.servers[0].state == "unreachable"
    assert f"nobody answers at {address}" in status.problems()[0]
    with pytest.raises(Unavailable, match=f"nobody answers at {address} within .*: nobody answers at {address}"):
        await places_of([address], None)


def test_warnings_of_clocks_and_of_what_retention_is_about_to_trim() -> None:
    clocks = {
        "order_ahead_s": -11.2,
        "voters": [{"server": 1, "ahead_s": 0.0}, {"server": 2, "ahead_s": 90_000.0}, {"server": 3, "ahead_s": 9.0}],
    }
    trims = {"before": 501, "positions": 500, "in_s": 42}
    status = ClusterStatus([orderer(1, state="leader", clocks=clocks, retention=trims), *HEALTHY[1:]])
    assert status.problems() == [], "nothing is wrong yet"
    assert status.health.warnings == [
        "retention trims what is before position 501 (500 positions) from 42 s on: "
        "it is too old by the orderers' clocks",
        "the clock of orderer 2 is 90000 s ahead of the time that most orderers agree on",
        "the order's time is 11 s behind the time that most orderers agree on",
    ]
    assert ClusterStatus([orderer(1, clocks=clocks, retention=trims)]).health.warnings == [], "only a leader knows"


def test_records_that_no_replica_has_are_named_with_what_can_be_done() -> None:
    def holding(number: int, durable: int, placed: int, **said: Any) -> ServerStatus:
        lane = {"lane": "0-1-3", "open": False, "durable": durable, "placed": placed, "ordered": 9, "behind": True}
        return replica(number, role="replica", shard=0, replica=number, lanes=[lane | said])

    what = "records of lane 0-1-3 from LSN {} to 8 are ordered, and on no replica that answers: {}"
    declare = "if no disk or backup has them, say so with ithaca shard lost 0-1-3 {} 9"
    settled = replica(1, role="replica", shard=0, replica=1)
    for servers, problems in (
        ([holding(0, 4, 9), holding(1, 6, 2)], [what.format(6, declare.format(6))]),
        ([holding(0, 9, 3), holding(1, 6, 2)], [what.format(3, declare.format(3))]),
        ([holding(0, 4, 9), silent(HEALTHY[3])], [what.format(4, "start 0/1, which may have them")]),
        ([holding(0, 4, 9), settled], []),
        ([holding(0, 4, 9), holding(1, 9, 9)], []),
        ([holding(0, 4, 9, behind=False), holding(1, 4, 9, behind=False)], []),
        ([holding(0, 4, 9, open=True), holding(1, 4, 9, open=True)], []),
    ):
        found = ClusterStatus([*HEALTHY[:2], *servers]).problems()
        assert [each for each in found if "records" in each] == problems


def test_lanes_are_listed_with_what_each_server_holds() -> None:
    ours = {"lane": "0-0-10", "open": True, "durable": 7, "ordered": 5}
    other = {"lane": "0-0-2", "open": False, "durable": 3, "ordered": 3}
    servers = [*HEALTHY[:2], replica(0, lanes=[ours, other]), replica(1, lanes=[ours | {"durable": 6, "ordered": 6}])]
    assert lanes_of(servers) == [
        ("0-0-2", False, 3, {"shard-0-replica-0": 3}),
        ("0-0-10", True, 6, {"shard-0-replica-0": 7, "shard-0-replica-1": 6}),
    ]
    assert judged(servers).lanes == (("0-0-2", 3, 3), ("0-0-10", 6, 6))
