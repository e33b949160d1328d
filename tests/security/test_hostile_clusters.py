"""Whole clusters with TLS and users, while somebody tries everything from outside: everybody else goes on."""

import asyncio
import ssl
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from tests.runtime.echo import rest
from tests.security.conftest import Papers
from tests.security.expired import moved
from tests.security.test_rolling_upgrade import Load

import ithaca
from ithaca.model.errors import AuthenticationFailed
from ithaca.model.security.tls import TLS
from ithaca.model.view import Address
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, GetStatus, Hello, Role
from ithaca.runtime.connection import OnlyAnswers
from ithaca.runtime.dialling import Introduction, dial
from ithaca.runtime.tls.contexts import contexts_of
from ithaca.testing import Cluster

GARBAGE = (
    b"\x16",
    b"\x16\x03\x01\x00\x05hello",
    b"\x16\x03\x01\xff\xff" + bytes(70_000),
    b"\x17\x03\x03\x00\x10" + b"x" * 16,
    b"\0" * 5000,
    b"GET /health HTTP/1.1\r\n\r\n",
)


async def idle(address: Address, count: int) -> list[asyncio.StreamWriter]:
    """So many handshakes that are begun and not gone on with."""
    writers = []
    for number in range(count):
        _, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[: number % 10])
        writers.append(writer)
    return writers


async def garble(address: Address, known: TLS) -> None:
    """What is no handshake, what comes byte by byte, and what follows a handshake and is no frame."""
    for data in GARBAGE:
        with suppress(ConnectionError):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(data)
            if not data.startswith((b"\x16", b"\0")):
                await asyncio.wait_for(rest(reader), 10)
            writer.transport.abort()
    context = contexts_of(known).dialling
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    with suppress(ConnectionError, ssl.SSLError):
        writer.write(b"\xff" * 4096)
        await asyncio.wait_for(rest(reader), 10)
    writer.transport.abort()


async def introduce(address: Address, tls: TLS, role: Role, name: str) -> None:
    """Nobody is let in with this certificate, as whatever it says that it is."""
    hello = Hello(VERSION_MIN, VERSION_MAX, role, name, engine="")
    try:
        connection = await dial(address, Introduction(hello, tls), OnlyAnswers())
        await connection.request(GetStatus())
    except AuthenticationFailed:
        return
    raise AssertionError(f"{tls} was let in as {role} {name}")


def strangers(cluster: Cluster, directory: Path, patch: pytest.MonkeyPatch) -> dict[str, TLS]:
    """Certificates of those who have no business here; the authority of some is the cluster's own."""
    own, foreign, name = Papers(cluster.directory / "tls"), Papers(directory), cluster.file.name
    return {
        "nobody": own.nobody,
        "a user who was never added": own.user("mallory", cluster=name),
        "a user of another cluster": own.user("operator", cluster="shop"),
        "a server of another cluster": own.server("orderer-1", cluster="shop"),
        "a user of another authority": foreign.user("operator", cluster=name, trusts=own),
        "a server of another authority": foreign.server("orderer-1", cluster=name, trusts=own),
        "an expired server": moved(own, "orderer-9", timedelta(days=-10), patch, name),
        "a server that is not valid yet": moved(own, "orderer-8", timedelta(days=10), patch, name),
    }


ROLES: tuple[tuple[Role, str], ...] = (("client", ""), ("orderer", "1"), ("replica", "0/1"), ("aggregator", "1"))


async def attack(cluster: Cluster, papers: dict[str, TLS], count: int) -> None:
    """Everything at once, against every server."""
    assert cluster.tls is not None
    opened = []
    for address in cluster.file.addresses():
        opened += await idle(address, count)
        await garble(address, cluster.tls)
        for tls in papers.values():
            for role, name in ROLES:
                await introduce(address, tls, role, name)
        await introduce(
            Address("localhost", address.port), cluster.tls, "client", ""
        )  # the certificate is of the address
    for writer in opened:
        writer.transport.abort()


def attacked(engine: str, directory: Path, patch: pytest.MonkeyPatch, count: int) -> None:
    with Cluster(engine=engine, tls=True, users=True) as cluster:
        papers = strangers(cluster, directory, patch)
        with ithaca.connect(cluster.bootstrap, tls=cluster.tls) as log:
            users = log.admin.users()
            load = Load(log, 0)
            asyncio.run(attack(cluster, papers, count))
            load.goes_on()
            number = load.end()
            with log.read_range(1, log.tail()) as records:
                assert [int(record.value) for record in records] == list(range(number))
            assert log.admin.users() == users
            assert log.status().healthy
        assert cluster.status().problems() == []
        assert len(cluster.file.addresses()) == len(cluster.names) == len(cluster.status().servers)


@pytest.mark.parametrize("engine", ["scalog", "belfast", "raft"])
def test_others_go_on_while_somebody_tries_everything(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attacked(engine, tmp_path / "foreign", monkeypatch, 50)


@pytest.mark.campaign
@pytest.mark.parametrize("engine", ["scalog", "belfast", "raft"])
def test_others_go_on_while_thousands_begin_a_handshake(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attacked(engine, tmp_path / "foreign", monkeypatch, 1000)
