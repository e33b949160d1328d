"""Connections with TLS: who gets through, who does not, and what both are told."""

import asyncio
import os
import ssl
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.runtime.echo import HELLO, EchoServer, Recorder, echo_server, raw, rest
from tests.security.conftest import CLUSTER, Papers
from tests.security.expired import moved

from ithaca.engines.scalog.messages.appending import Append
from ithaca.engines.scalog.messages.reading import Found
from ithaca.engines.scalog.messages.reporting import Join
from ithaca.model.errors import AuthenticationFailed, ConfigError, IthacaError, ProtocolError, Unavailable
from ithaca.model.positions import LaneId
from ithaca.model.security.identity import Identity
from ithaca.model.security.tls import TLS
from ithaca.model.view import Address
from ithaca.protocol.greeting import GetStatus, Hello, Role
from ithaca.protocol.members import RaftMessage
from ithaca.raft.messages import AppendReply
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import Introduction, dial
from ithaca.runtime.listener import Guard
from ithaca.runtime.tls import contexts
from ithaca.runtime.tls.contexts import TlsContexts, contexts_of

SERVER = "shard-0-replica-0"


def guard(papers: Papers, *, required: bool = True) -> Guard:
    return Guard(papers.server(SERVER), CLUSTER, required)


def hello(role: Role = "client", name: str = "test") -> Hello:
    return msgspec.structs.replace(HELLO, role=role, name=name)


def secure_server(**options: Any) -> AbstractAsyncContextManager[EchoServer]:
    """A server that says that it is the replica its certificate is of."""
    return echo_server(welcome_name="0/0", **options)


async def connected(server: EchoServer, tls: TLS | None, said: Hello = HELLO, cluster: str | None = None) -> Connection:
    connection = await dial(server.address, Introduction(said, tls, cluster), Recorder())
    server.dialled.append(connection)
    return connection


async def refusal(server: EchoServer, tls: TLS | None, said: Hello = HELLO, cluster: str | None = None) -> IthacaError:
    taken = sum(len(peer.received) for peer in server.peers)
    with pytest.raises(IthacaError) as caught:
        # A server's word on a certificate comes after the handshake.
        await (await connected(server, tls, said, cluster)).request(GetStatus())
    assert sum(len(peer.received) for peer in server.peers) == taken, "nothing was taken"
    return caught.value


async def test_what_is_said_arrives_whole_in_both_directions(papers: Papers) -> None:
    async with secure_server(guard=guard(papers)) as server:
        connection = await connected(server, papers.nobody)
        assert connection.is_secure
        assert connection.identity == Identity(CLUSTER, server=SERVER)
        for size in (0, 8, 16_384, 1_000_000):
            sent = os.urandom(size)
            answer = await connection.request(Append(LaneId(0, 1, 2)), [sent])
            assert isinstance(answer.message, Found)
            assert bytes(answer.payload) == sent
        assert server.connections[0].is_secure
        assert server.connections[0].identity is None


async def test_the_end_of_a_connection_is_told(papers: Papers) -> None:
    async with secure_server(guard=guard(papers)) as server:
        connection = await connected(server, papers.nobody)
        connection.close()
        await asyncio.wait_for(connection.wait_lost(), 5)
        await asyncio.wait_for(server.connections[0].wait_lost(), 5)
        assert server.peers[0].lost == [None]


async def test_a_certificate_says_who_dials(papers: Papers) -> None:
    async with secure_server(guard=guard(papers)) as server:
        await connected(server, papers.user("alice"))
        await connected(server, papers.server("orderer-1"), hello("orderer", "1"), CLUSTER)
        assert [each.identity for each in server.connections] == [
            Identity(CLUSTER, user="alice"),
            Identity(CLUSTER, server="orderer-1"),
        ]


async def test_whoever_speaks_in_the_open_is_told_to_use_tls(papers: Papers) -> None:
    async with secure_server(guard=guard(papers)) as server:
        error = await refusal(server, None)
        assert isinstance(error, AuthenticationFailed)
        assert "speaks TLS alone" in str(error)
        async with raw(server.address) as (reader, writer):
            writer.write(b"GET /health HTTP/1.0\r\n\r\n")
            assert b"403 Forbidden" in await rest(reader)
        assert len(server.refused) == 2


async def test_on_the_way_to_tls_both_are_taken(papers: Papers) -> None:
    async with secure_server(guard=guard(papers, required=False)) as server:
        plain = await connected(server, None)
        secure = await connected(server, papers.nobody)
        assert (plain.is_secure, secure.is_secure) == (False, True)
        assert await server.works(plain)
        assert await server.works(secure)
        await connected(server, None, hello("orderer", "1"))


async def test_a_server_without_tls_is_not_taken_for_one_with(papers: Papers) -> None:
    async with secure_server() as server:
        error = await refusal(server, papers.nobody)
        assert isinstance(error, ProtocolError)
        assert "does not speak TLS" in str(error)


async def test_a_server_of_another_authority_hears_nothing(papers: Papers, foreign: Papers) -> None:
    async with secure_server(guard=guard(foreign)) as server:
        error = await refusal(server, papers.nobody)
        assert isinstance(error, AuthenticationFailed)
        assert "has not proved who it is" in str(error)
        assert server.connections == []


async def test_a_server_at_another_host_hears_nothing(papers: Papers) -> None:
    own = Guard(papers.server(SERVER, host="10.1.2.3"), CLUSTER, True)
    async with secure_server(guard=own) as server:
        error = await refusal(server, papers.nobody)
        assert isinstance(error, AuthenticationFailed)
        assert "IP address mismatch" in str(error)
    assert server.connections == []


async def test_a_user_is_no_server(papers: Papers) -> None:
    """A certificate of a user names no host and no server's purpose, so nobody can be lured with it."""
    async with secure_server(guard=Guard(papers.user("mallory"), CLUSTER, True)) as server:
        assert isinstance(await refusal(server, papers.nobody), AuthenticationFailed)
    assert server.connections == []


@pytest.mark.parametrize(("role", "name"), [("replica", "0/1"), ("orderer", "1"), ("aggregator", "1")])
@pytest.mark.parametrize("who", ["nobody", "user", "other server", "other cluster"])
async def test_nobody_is_a_server_without_a_certificate_that_says_so(
    papers: Papers, who: str, role: Role, name: str
) -> None:
    tls = {
        "nobody": lambda: papers.nobody,
        "user": lambda: papers.user("alice"),
        "other server": lambda: papers.server("shard-7-replica-7"),
        "other cluster": lambda: papers.server({"replica": "shard-0-replica-1"}.get(role, f"{role}-1"), cluster="shop"),
    }[who]()
    async with secure_server(guard=guard(papers)) as server:
        error = await refusal(server, tls, hello(role, name))
        assert isinstance(error, AuthenticationFailed)
        assert "no server of this cluster" in str(error)
        assert server.connections == []


async def test_a_spare_may_be_any_replica_and_nothing_else(papers: Papers) -> None:
    tls = papers.server("spare-1")
    async with secure_server(guard=guard(papers)) as server:
        await connected(server, tls, hello("replica", "spare"), CLUSTER)
        await connected(server, tls, hello("replica", "3/4"), CLUSTER)
        assert isinstance(await refusal(server, tls, hello("orderer", "1"), CLUSTER), AuthenticationFailed)


async def test_a_server_that_dials_wants_to_meet_the_server_that_it_is_told_of(papers: Papers) -> None:
    tls = papers.server("orderer-1")
    other = Guard(papers.server("shard-3-replica-3"), CLUSTER, True)
    async with secure_server(guard=other) as server:
        error = await refusal(server, tls, hello("orderer", "1"), CLUSTER)
        assert isinstance(error, AuthenticationFailed)
        assert "shard-0-replica-0" in str(error)


@pytest.mark.parametrize("days", [-10, 10], ids=["expired", "not yet valid"])
async def test_a_certificate_counts_while_it_is_valid(
    papers: Papers, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = moved(papers, f"orderer-{9 + days // 10}", timedelta(days=days), monkeypatch)
    async with secure_server(guard=guard(papers)) as server:
        error = await refusal(server, wrong, hello("orderer", str(9 + days // 10)), CLUSTER)
        assert isinstance(error, AuthenticationFailed)
    async with secure_server(guard=Guard(wrong, CLUSTER, True)) as server:
        error = await refusal(server, papers.nobody)
        assert isinstance(error, AuthenticationFailed)
        assert "expired" in str(error) or "not yet valid" in str(error)
    assert server.connections == []


async def test_a_certificate_of_another_authority_is_refused(papers: Papers, foreign: Papers) -> None:
    async with secure_server(guard=guard(papers)) as server:
        error = await refusal(server, foreign.server("orderer-1", trusts=papers), hello("orderer", "1"), CLUSTER)
        assert isinstance(error, AuthenticationFailed)
        assert server.connections == []


@pytest.mark.parametrize("message", [Join(0, 0, 1), RaftMessage(AppendReply(1, 2, True, 4), None)], ids=type)
async def test_a_client_says_nothing_that_only_servers_say(papers: Papers, message: msgspec.Struct) -> None:
    async with secure_server(guard=guard(papers)) as server:
        connection = await connected(server, papers.user("alice"))
        other = await connected(server, papers.nobody)
        with pytest.raises(AuthenticationFailed, match="said by servers alone"):
            await connection.request(message)
        assert server.peers[0].received == []
        assert await server.works(other), "others go on"


@pytest.mark.parametrize("who", ["nobody", "user of another cluster", "server of another cluster"])
async def test_a_client_that_must_be_known_says_who_it_is(papers: Papers, who: str) -> None:
    tls = {
        "nobody": lambda: papers.nobody,
        "user of another cluster": lambda: papers.user("alice", cluster="shop"),
        "server of another cluster": lambda: papers.server("orderer-1", cluster="shop"),
    }[who]()
    closed = guard(papers)._replace(knows_clients=True)
    async with secure_server(guard=closed) as server:
        error = await refusal(server, tls)
        assert isinstance(error, AuthenticationFailed)
        assert "clients need one of a user of bank" in str(error)
        assert server.connections == []
        for known in (papers.user("alice"), papers.server("orderer-1")):
            assert await server.works(await connected(server, known))


async def test_health_is_told_over_tls(papers: Papers) -> None:
    async with secure_server(guard=guard(papers)) as server:
        context = contexts_of(papers.nobody).dialling
        reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port, ssl=context)
        writer.write(b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n")
        assert (await reader.read()).endswith(b"fine\n")
        writer.close()


async def test_older_versions_of_tls_are_refused(papers: Papers) -> None:
    async with secure_server(guard=guard(papers)) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(str(papers.nobody.authority))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", server.address.port, ssl=context)
        assert len(server.refused) == 1


# Those who mean no good


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"\x16",
        b"\x16\x03\x01\x00\x05hello",
        b"\x16\x03\x01\xff\xff" + b"\0" * 70_000,
        b"\x16" * 5000,
        b"\x17\x03\x03\x00\x10" + b"x" * 16,
        b"\0" * 5000,
    ],
    ids=["a byte", "garbage", "a huge record", "nothing but", "data first", "zeros"],
)
async def test_garbage_in_the_place_of_a_handshake_hurts_nobody(papers: Papers, bytes_sent: bytes) -> None:
    async with secure_server(guard=guard(papers), hello_timeout_s=0.2) as server:
        other = await connected(server, papers.nobody)
        async with raw(server.address) as (reader, writer):
            writer.write(bytes_sent)
            await asyncio.wait_for(rest(reader), 10)
        assert await server.works(other)
        assert len(server.connections) == 1


async def test_garbage_after_the_handshake_ends_the_connection(papers: Papers) -> None:
    async with secure_server(guard=guard(papers)) as server:
        connection = await connected(server, papers.nobody)
        other = await connected(server, papers.nobody)
        assert connection._transport is not None
        connection._transport.write(b"\x17\x03\x03\x00\x20" + b"y" * 32)
        await asyncio.wait_for(connection.wait_lost(), 5)
        assert server.peers[0].received == []
        assert await server.works(other)


async def test_half_handshakes_are_ended_and_others_get_through(papers: Papers) -> None:
    async with secure_server(guard=guard(papers), hello_timeout_s=0.3) as server:
        idle = [await asyncio.open_connection("127.0.0.1", server.address.port) for _ in range(100)]
        for number, (_, writer) in enumerate(idle):
            writer.write(b"\x16\x03\x01\x02\x00\x01"[: 1 + number % 6])
        connection = await connected(server, papers.nobody)
        assert await server.works(connection)
        for reader, writer in idle:
            await asyncio.wait_for(rest(reader), 10)
            writer.close()
        assert len(server.refused) == len(idle)
        assert await server.works(connection)


async def test_a_handshake_that_was_recorded_is_of_no_use(papers: Papers) -> None:
    """What a user sent is sent again, byte for byte: the server has other secrets by then."""
    recorded = bytearray()
    async with secure_server(guard=guard(papers)) as server:

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            to_reader, to = await asyncio.open_connection("127.0.0.1", server.address.port)

            async def back() -> None:
                while data := await to_reader.read(65_536):
                    writer.write(data)
                writer.close()

            answering = asyncio.create_task(back())
            while data := await reader.read(65_536):
                recorded.extend(data)
                to.write(data)
            to.close()
            await answering

        between = await asyncio.start_server(relay, "127.0.0.1", 0)
        port = between.sockets[0].getsockname()[1]
        connection = await dial(Address("127.0.0.1", port), Introduction(HELLO, papers.user("alice")), Recorder())
        await connection.request(GetStatus())
        connection.close()
        await connection.wait_lost()
        assert len(server.connections) == 1
        async with raw(server.address) as (reader, writer):
            writer.write(recorded)
            await asyncio.wait_for(rest(reader), 10)
        assert len(server.connections) == 1, "nobody has said hello"
        between.close()
        await between.wait_closed()


# The files


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have files looked at with each connection."""
    monkeypatch.setattr(contexts, "TLS_LOOK_S", 0.0)
    contexts_of.cache_clear()
    yield
    contexts_of.cache_clear()


@pytest.mark.usefixtures("looking")
async def test_new_certificates_are_used_without_a_restart(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "authority")
    issued = papers.authority.issue_server(CLUSTER, SERVER, ["127.0.0.2"])
    tls = TLS(papers.nobody.authority, issued.certificate, issued.key)
    async with secure_server(guard=Guard(tls, CLUSTER, True)) as server:
        assert isinstance(await refusal(server, papers.nobody), AuthenticationFailed)
        papers.authority.issue_server(CLUSTER, SERVER, ["127.0.0.1"])
        connection = await connected(server, papers.nobody)
        papers.authority.issue_server(CLUSTER, SERVER, ["127.0.0.2"])
        assert isinstance(await refusal(server, papers.nobody), AuthenticationFailed)
        assert await server.works(connection), "who is connected stays so"


def replaced(tls: TLS, other: object) -> Path:
    """Put another key into the place of this one; returns where that is kept."""
    key = Path(str(tls.key))
    kept = key.with_suffix(".kept")
    kept.write_bytes(key.read_bytes())
    key.write_bytes(Path(str(other)).read_bytes())
    return kept


@pytest.mark.usefixtures("looking")
async def test_files_that_do_not_belong_together_leave_things_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    papers = Papers(tmp_path / "authority")
    tls = papers.server(SERVER)
    async with secure_server(guard=Guard(tls, CLUSTER, True)) as server:
        await connected(server, papers.nobody)
        kept = replaced(tls, papers.server("orderer-1").key)
        await connected(server, papers.nobody)
        assert "the certificates in use are kept" in caplog.text
        replaced(tls, kept)
        await connected(server, papers.nobody)


def test_wrong_files_are_named(papers: Papers, tmp_path: Path) -> None:
    tls = papers.server("orderer-1")
    with pytest.raises(ConfigError, match=r"missing.pem cannot be read: No such file"):
        TlsContexts(TLS(tmp_path / "missing.pem"))
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(ConfigError, match=r"empty.pem holds no certificate"):
        TlsContexts(TLS(tmp_path / "empty.pem"))
    with pytest.raises(ConfigError, match="no certificate in PEM format with its key: key values mismatch"):
        TlsContexts(TLS(tls.authority, tls.certificate, papers.server("orderer-2").key))
    public = tmp_path / "public.key"
    public.write_bytes(Path(str(tls.key)).read_bytes())
    public.chmod(0o644)
    with pytest.raises(ConfigError, match=r"others may read or change the key .*: say chmod 600"):
        TlsContexts(TLS(tls.authority, tls.certificate, public))


async def test_a_server_with_wrong_files_does_not_start(papers: Papers, tmp_path: Path) -> None:
    wrong = Guard(TLS(papers.nobody.authority, tmp_path / "a.pem", tmp_path / "a.key"), CLUSTER, True)
    with pytest.raises(ConfigError, match=r"a.pem cannot be read"):
        async with secure_server(guard=wrong):
            pass


async def test_nobody_there_is_unavailable_as_before(papers: Papers) -> None:
    with pytest.raises(Unavailable, match="nobody answers"):
        await dial(Address("127.0.0.1", 1), Introduction(HELLO, papers.nobody), Recorder())
