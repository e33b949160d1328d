"""Clusters of the engine raft in this process, over real sockets and files: what is hardest for it."""

import asyncio
import dataclasses
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from tests.cluster.supervising import eventually

import ithaca
from ithaca.engines.raft.client.links import HELLO
from ithaca.engines.raft.messages import Behind, Found, LocateLane, Read
from ithaca.engines.registry import engine
from ithaca.model.addresses import parse_address
from ithaca.model.errors import DeadlineExceeded, SessionExpired, SessionFenced, Unavailable, Unsupported
from ithaca.protocol.codec import Message
from ithaca.raft.events import Settings
from ithaca.runtime.connection import OnlyAnswers
from ithaca.runtime.dialling import dial
from ithaca.runtime.machine import machine_name
from ithaca.server.options import ServerOptions
from ithaca.storage.disk import OsDisk
from ithaca.testing import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", engine="raft", orderers=3) as cluster:
        yield cluster


def leader_of(cluster: Cluster) -> str:
    leader = cluster.status().health.leader
    assert leader is not None
    return leader.place.name


def asked(cluster: Cluster, name: str, question: Message) -> Message:
    """What one server says, without being redirected."""

    async def ask() -> Message:
        connection = await dial(cluster._places[name].address, HELLO, OnlyAnswers())
        try:
            return (await connection.request(question, timeout=20)).message
        finally:
            connection.close()

    return asyncio.run(ask())


def test_sessions_append_once_through_changes_of_the_leader(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap, timeout=60) as log:
        session = log.session("importer")
        for number in range(1, 31):
            if number % 10 == 0:
                name = leader_of(cluster)
                cluster.kill_server(name)
                session.append(b"%d" % number, seq=number)
                cluster.start_server(name)
                cluster.wait_healthy()
            first = session.append(b"%d" % number, seq=number)
            assert session.append(b"%d" % number, seq=number) == first
        assert [record.value for record in log.read_range(1)] == [b"%d" % number for number in range(1, 31)]
        again = log.session("importer")
        assert again.next_seq == 31
        with pytest.raises(SessionFenced):
            session.append(b"late")


def test_every_server_serves_what_is_agreed_on(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        log.append(b"hello")
    for name in cluster.names:
        assert isinstance(asked(cluster, name, Read(1, 20_000)), Found)
        assert isinstance(asked(cluster, name, Read(2)), Behind)


def test_a_server_that_knows_no_cursor_yet_is_behind_and_says_nothing_else(cluster: Cluster) -> None:
    """Everything is restarted, and nothing can be committed: what is on the disk may or may not be agreed on."""
    with ithaca.connect(cluster.bootstrap) as log:
        log.append_many([b"1", b"2", b"3"])
    for name in cluster.names:
        cluster.stop_server(name)
    cluster.start_server("orderer-2")
    assert asked(cluster, "orderer-2", Read(1)) == Behind(1)
    cluster.start_server("orderer-3")
    assert isinstance(asked(cluster, "orderer-2", Read(1, 20_000)), Found)


def test_a_new_server_copies_what_the_compaction_point_refers_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(snapshot_entries=5, trailing_entries=1)
    monkeypatch.setattr("ithaca.testing.cluster.ServerOptions", partial(ServerOptions, settings=settings))
    with Cluster(tmp_path / "cluster", engine="raft") as cluster, ithaca.connect(cluster.bootstrap, timeout=60) as log:
        for number in range(1, 41):
            log.append(b"%d" % number)
        log.trim(11)
        added = cluster.add_orderer()
        cluster.add_orderer()
        cluster.wait_healthy()
        log.append(b"41")
        name = f"orderer-{added}"
        assert isinstance(asked(cluster, name, Read(41, 20_000)), Found)
        cluster.remove_orderer(1)
        with ithaca.connect(cluster.bootstrap, timeout=60) as other:
            assert [record.value for record in other.read_range(11)] == [b"%d" % number for number in range(11, 42)]
        cluster.stop_server(name)
        runs = list(engine("raft").stored_runs(OsDisk(), str(cluster.directory / name)))
        assert [run.position + row for run in runs for row in range(run.high - run.low)] == list(range(11, 42))


def test_a_server_that_was_removed_serves_nothing_any_more(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap, timeout=60) as log:
        log.append(b"1")
        removed = next(each.orderer for each in log.admin.orderers() if not each.leads)
        name = f"orderer-{removed}"
        assert asked(cluster, name, Read(1, 5000)) == Found(1)
        log.admin.remove_orderer(removed)
        told: list[str] = []

        def refuses() -> bool:
            with suppress(DeadlineExceeded):
                try:
                    asked(cluster, name, Read(1))
                except Unavailable as error:
                    told.append(str(error))
            return bool(told)

        eventually(refuses, "it has heard that it was removed")
        assert told == [f"server {removed} was removed: the others have what it held"]
        with pytest.raises(Unavailable, match="was removed"):
            asked(cluster, name, LocateLane(machine_name(), 1, 2))
        assert log.read(1).value == b"1"


def test_it_says_what_it_cannot_do(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        with pytest.raises(Unsupported, match="prepared appends"):
            log.open_part()
        with pytest.raises(Unsupported, match="shards"):
            log.admin.add_shard(["127.0.0.1:1"])


def test_its_servers_are_found_through_one_of_them(cluster: Cluster) -> None:
    places = asyncio.run(engine("raft").places([parse_address(cluster.bootstrap.split(",")[0])]))
    assert [place.name for place in places] == cluster.names


def test_a_session_that_nobody_uses_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ithaca.engines.raft.server.idle.SESSIONS_CHECK_S", 0.05)
    cluster = Cluster(tmp_path / "cluster", engine="raft")
    cluster.file = dataclasses.replace(cluster.file, session_idle_s=1)
    with cluster, ithaca.connect(cluster.bootstrap) as log:
        session = log.session("importer")
        session.append(b"1")
        while log.admin.sessions():
            time.sleep(0.05)
        with pytest.raises(SessionExpired):
            session.append(b"2")
        assert log.session("importer").next_seq == 1
