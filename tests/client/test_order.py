"""Finding the ordering layer: bootstrap, redirects, leaders that change, ports that speak something else."""

import asyncio
from typing import Any

import pytest
from tests.client.fake_cluster import FakeCluster

from ithaca.aio import connect
from ithaca.client.bootstrap import parse_bootstrap
from ithaca.client.settings import ClientSettings
from ithaca.engines.scalog.messages.order import GetTail, Propose
from ithaca.engines.scalog.messages.requests import REQUESTS
from ithaca.model.errors import InvalidInput, ProtocolError, StorageFull, Unavailable, UnknownCompression
from ithaca.model.view import Address
from ithaca.runtime import listener


@pytest.mark.parametrize("bootstrap", ["", "nowhere", "127.0.0.1", "a:b", "host:0", "host:99999", [], [7], [b"a:1"]])
async def test_a_bad_bootstrap_is_invalid_input(bootstrap: Any) -> None:
    with pytest.raises(InvalidInput):
        await connect(bootstrap)


def test_several_addresses_come_as_text_or_as_a_list() -> None:
    expected = (Address("a", 1), Address("::1", 2))
    assert parse_bootstrap("a:1,[::1]:2") == parse_bootstrap(["a:1", "[::1]:2", "a:1"]) == expected


async def test_wrong_arguments_are_refused_by_the_call() -> None:
    wrong: list[dict[str, Any]] = [{"timeout": 0}, {"inflight_bytes_max": 0}, {"shard_policy": "fastest"}]
    for arguments in wrong:
        with pytest.raises(InvalidInput):
            connect("127.0.0.1:7600", **arguments)
    ClientSettings(timeout_s=1e-9, inflight_bytes_max=1)  # the least that is allowed
    unknown: Any = "rar"
    with pytest.raises(UnknownCompression):
        connect("127.0.0.1:7600", compression=unknown)


async def test_nobody_there_is_unavailable_and_names_the_addresses() -> None:
    async with FakeCluster() as cluster:
        address = cluster.bootstrap
    with pytest.raises(Unavailable, match=address):
        await connect([address], timeout=0.2)


async def test_a_port_that_speaks_something_else_is_said_at_once() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises((ProtocolError, Unavailable), match=str(port)):
            await connect(f"127.0.0.1:{port}", timeout=1)


async def test_a_replica_is_no_orderer() -> None:
    async with FakeCluster() as cluster:
        address = str(cluster.replicas[0][0].address)
        with pytest.raises(ProtocolError, match=address):
            await connect(address, timeout=5)


async def test_any_orderer_leads_to_the_leader() -> None:
    async with FakeCluster(orderers=3) as cluster:
        cluster.leader = cluster.orderers[2]
        log = await cluster.connect()
        assert (await log.append(b"a")).position == 1
        assert await log.tail() == 2
        assert GetTail in cluster.orderers[2].asked


async def test_servers_that_speak_version_1_get_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "VERSION_MAX", 1)
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        assert (await log.append(b"a")).position == 1
        await log.trim(2)
        assert Propose in cluster.orderers[0].asked
        assert not set(REQUESTS) & set(cluster.orderers[0].asked)


async def test_whoever_has_heard_of_the_leader_asks_nobody_else() -> None:
    async with FakeCluster(orderers=3) as cluster:
        cluster.leader = cluster.orderers[2]
        for _ in range(8):
            log = await cluster.connect()
            for orderer in cluster.orderers:
                orderer.asked.clear()
            await log.tail()
            assert [len(orderer.asked) for orderer in cluster.orderers] == [0, 0, 1]


async def test_a_leader_that_changes_is_followed() -> None:
    async with FakeCluster(orderers=3) as cluster:
        log = await cluster.connect()
        for leader in (*cluster.orderers, *reversed(cluster.orderers)):
            cluster.leader = leader
            assert await log.tail() == 1
        for dead in cluster.orderers[:2]:
            cluster.leader = cluster.orderers[2]
            await dead.stop()
            assert await log.tail() == 1
        assert (await log.append(b"a")).position == 1


async def test_a_call_waits_for_a_leader_and_says_so_when_there_is_none() -> None:
    async with FakeCluster(orderers=2) as cluster:
        log = await cluster.connect(timeout=0.3)
        cluster.leader = None
        with pytest.raises(Unavailable, match="leader"):
            await log.tail()
        patient = await cluster.connect(timeout=10)
        tail = asyncio.ensure_future(patient.tail())
        await asyncio.sleep(0.05)
        assert not tail.done()
        cluster.leader = cluster.orderers[1]
        assert await tail == 1


async def test_refusals_of_the_moment_are_asked_again() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        cluster.orderers[0].refusals += [Unavailable("an election")] * 3
        assert await log.tail() == 1


async def test_what_one_attempt_left_unknown_later_refusals_do_not_make_known() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect(timeout=0.5)
        await log.append(b"a")
        orderer = cluster.orderers[0]
        orderer.losing_answers = 1
        trimming = asyncio.ensure_future(log.trim(2))
        await cluster.when(lambda: cluster.state.first == 2)
        orderer.refusals += [Unavailable("an election")] * 100
        with pytest.raises(Unavailable) as error:
            await trimming
        assert 0 < len(orderer.refusals) < 100, "it was refused to the last"
        assert error.value.outcome_unknown


async def test_what_one_attempt_left_unknown_a_refusal_for_good_does_not_make_known() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect(timeout=5)
        await log.append(b"a")
        orderer = cluster.orderers[0]
        orderer.refusals.append(StorageFull("no space"))
        with pytest.raises(StorageFull) as error:
            await log.trim(2)
        assert not error.value.outcome_unknown, "nothing was tried before"
        orderer.losing_answers = 1
        trimming = asyncio.ensure_future(log.trim(2))
        await cluster.when(lambda: cluster.state.first == 2)
        orderer.refusals.append(StorageFull("no space"))
        with pytest.raises(StorageFull) as error:
            await trimming
        assert error.value.outcome_unknown


async def test_an_orderer_of_another_log_is_refused() -> None:
    async with FakeCluster() as cluster, FakeCluster() as other:
        log = await cluster.connect(timeout=1)
        port = cluster.orderers[0].address.port
        await cluster.orderers[0].stop()
        await other.orderers[0].stop()
        other.orderers[0].address = Address("127.0.0.1", port)
        await other.orderers[0].start()
        with pytest.raises(ProtocolError, match="log"):
            await log.tail()
