"""Who came, who was refused and what was changed is written down, on every engine, and bounded."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.model.small_cluster import SMALL, write
from tests.runtime.echo import HELLO, Recorder, echo_server
from tests.shipped import ENGINES

import ithaca
from ithaca.cluster.certs.local import secured
from ithaca.engines.scalog.messages.requests import TrimBefore
from ithaca.model.config.audit import ClusterAudit
from ithaca.model.config.cluster import load_cluster
from ithaca.model.config.text import dump_cluster
from ithaca.model.consumers import CommitPosition, DeleteConsumer, OpenConsumer
from ithaca.model.errors import AuthenticationFailed, ConfigError, NotAllowed, ProtocolError
from ithaca.model.limits import AUDIT_FILE_BYTES_MIN, AUDIT_TEXT_CHARACTERS_MAX
from ithaca.protocol.codec import is_administrative
from ithaca.protocol.consumers import ChangeConsumers
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import dial
from ithaca.server.audit import AuditLog
from ithaca.testing import Cluster


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def of_all(directory: Path) -> list[dict[str, Any]]:
    return [line for path in sorted((directory / "audit").glob("*.jsonl")) for line in lines(path)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cluster_writes_down_who_came_and_what_was_changed(tmp_path: Path, engine: str) -> None:
    cluster = Cluster(tmp_path, engine=engine)
    cluster.file = replace(secured(tmp_path, cluster.file), audit=ClusterAudit(directory=str(tmp_path)))
    with cluster:
        with ithaca.connect(cluster.bootstrap, tls=cluster.tls) as log:
            log.append_many([b"a", b"b"])
            log.trim(log.first() + 1)
        with pytest.raises(AuthenticationFailed):
            ithaca.connect(cluster.bootstrap, timeout=5)
    told = of_all(tmp_path)
    assert {"user operator of local", "orderer-1 of local"} >= {
        line["who"] for line in told if line["event"] == "login" and line["role"] != "replica"
    }
    trims = [line for line in told if line["event"] == "asked" and "rim" in line["request"] + line["fields"]]
    assert trims
    assert {line["who"] for line in trims} == {"user operator of local"}
    refused = [line for line in told if line["event"] == "refused"]
    assert "AuthenticationFailed" in {line["error"] for line in refused}
    assert {line["server"] for line in told} <= set(cluster.names)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "audit").iterdir()} == {0o600}
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o700


def test_users_are_written_down_by_name_and_their_tokens_are_not(tmp_path: Path) -> None:
    """Who came by a token, who was refused for want of a right, and what an administrator has asked for."""
    cluster = Cluster(tmp_path, users=True)
    cluster.file = replace(cluster.file, audit=ClusterAudit(directory=str(tmp_path)))
    with cluster, ithaca.connect(cluster.bootstrap, token=cluster.token) as operator:
        tokens = [operator.admin.add_user("alice", ["read"])]
        tokens.append(operator.admin.rotate_token("alice"))
        operator.admin.grant("alice", ["append"])
        position = operator.append(b"1").position
        with ithaca.connect(cluster.bootstrap, token=tokens[0]) as log:
            assert log.read(position).value == b"1"
            with pytest.raises(NotAllowed):
                log.trim(position)
        secret = cluster.token
    told = of_all(tmp_path)
    by_alice = [line for line in told if line["who"] == "user alice by token"]
    assert {(line["event"], line["role"]) for line in by_alice if line["event"] == "login"} == {("login", "client")}
    denied = [line for line in by_alice if line["event"] == "denied"]
    assert {(line["request"], line["error"]) for line in denied} == {("TrimBefore", "NotAllowed")}
    assert all("trim" in line["why"] for line in denied)
    changes = [line for line in told if line.get("request") == "ChangeUsers"]
    assert {line["who"] for line in changes} == {"user operator by token"}
    said = [json.loads(line["fields"]) for line in changes]
    assert [each[0].partition("(")[0] for each in said] == ["AddUser", "RotateToken", "GrantRights"]
    written = "".join(path.read_text() for path in (tmp_path / "audit").glob("*.jsonl"))
    assert secret is not None
    for token in (*tokens, secret):
        assert token.rpartition(":")[2] not in written
    assert "digest" not in written
    assert "salt" not in written


def test_a_unit_a_sequencer_and_a_set_that_an_administrator_wants_are_told_from_recovery(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, engine="corfu", replicas=1, spares=1)
    cluster.file = replace(secured(tmp_path, cluster.file), audit=ClusterAudit(directory=str(tmp_path)))
    with cluster, ithaca.connect(cluster.bootstrap, tls=cluster.tls) as log:
        units = log.admin.units()
        begun = len(epochs(tmp_path))
        assert log.admin.replace_sequencer(0) == 0
        assert epochs(tmp_path)[begun:] == [(True, "user operator of local")]
        log.session("s").append(b"a")
        log.session("s").append(b"b")
        assert epochs(tmp_path)[begun + 1 :] == [(False, "user operator of local")], "which fences the older handle"
        (spare,) = [each.address for each in units if each.set is None]
        log.admin.add_units([spare])
        assert (True, "user operator of local") in epochs(tmp_path)[begun + 2 :]
    assert not any(is_wanted for is_wanted, who in epochs(tmp_path) if who != "user operator of local")


def epochs(directory: Path) -> list[tuple[bool, str]]:
    """The epochs that somebody has had follow: whether an administrator wanted it, and who it was."""
    lines = [line for line in of_all(directory) if line.get("request") == "Decide"]
    said = [(json.loads(line["fields"]), line["who"]) for line in lines]
    return [(fields["by_administrator"], who) for fields, who in said if fields["command"][0] == "next"]


async def test_a_line_says_who_asks_for_what(tmp_path: Path) -> None:
    audit = AuditLog(ClusterAudit(directory=str(tmp_path)), "orderer-1")
    async with echo_server(audit=audit) as server:
        connection = await server.dial()
        connection.send(TrimBefore(7))
        assert await server.works(connection)
        with pytest.raises(ProtocolError):
            await dial(server.address, HELLO.__class__(9, 9, "client"), Recorder())
    login, asked, refused = lines(tmp_path / "audit" / "orderer-1.jsonl")
    assert (login["event"], login["who"], login["role"], login["from"]) == ("login", None, "client", _name(server))
    assert (asked["event"], asked["request"], asked["fields"]) == ("asked", "TrimBefore", '{"position":7}')
    assert (refused["event"], refused["error"]) == ("refused", "VersionMismatch")


def test_a_consumer_that_is_moved_is_written_down_and_one_that_goes_on_is_not() -> None:
    commit = CommitPosition("billing", 0, 1, 7)
    assert not is_administrative(ChangeConsumers((OpenConsumer("billing", 1, 1), commit)))
    assert is_administrative(ChangeConsumers((commit, DeleteConsumer("billing", 1))))


def _name(server: Any) -> str:
    connection: Connection = server.connections[0]
    return connection.name


async def test_files_are_put_aside_and_the_oldest_go(tmp_path: Path) -> None:
    audit = AuditLog(ClusterAudit("{server}", AUDIT_FILE_BYTES_MIN, 3, str(tmp_path)), "orderer-1")
    async with echo_server() as server:
        connection = await server.dial()
        why = ProtocolError("x" * AUDIT_TEXT_CHARACTERS_MAX * 2)
        for _ in range(4 * AUDIT_FILE_BYTES_MIN // AUDIT_TEXT_CHARACTERS_MAX):
            audit.refused(connection, why)
    names = ["orderer-1", "orderer-1.1", "orderer-1.2"]
    assert sorted(os.listdir(tmp_path)) == names
    for name in names:
        assert (tmp_path / name).stat().st_size <= AUDIT_FILE_BYTES_MIN
        assert all(line["error"] == "ProtocolError" for line in lines(tmp_path / name))


async def test_a_file_alone_is_begun_again(tmp_path: Path) -> None:
    audit = AuditLog(ClusterAudit("{server}", AUDIT_FILE_BYTES_MIN, 1, str(tmp_path)), "orderer-1")
    async with echo_server() as server:
        connection = await server.dial()
        for _ in range(40):
            audit.refused(connection, ProtocolError("y" * AUDIT_TEXT_CHARACTERS_MAX))
    assert os.listdir(tmp_path) == ["orderer-1"]
    assert 0 < (tmp_path / "orderer-1").stat().st_size <= AUDIT_FILE_BYTES_MIN


async def test_a_line_that_cannot_be_written_is_told_and_the_server_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    audit = AuditLog(ClusterAudit("{server}/lines", directory=str(tmp_path)), "orderer-1")
    (tmp_path / "orderer-1" / "lines").unlink()
    (tmp_path / "orderer-1").rmdir()
    async with echo_server(audit=audit) as server:
        assert await server.works(await server.dial())
    assert "the audit cannot be written" in caplog.text


def test_a_server_whose_audit_cannot_be_written_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text("in the way")
    with pytest.raises(ConfigError, match="the audit cannot be written to"):
        AuditLog(ClusterAudit(directory=str(tmp_path)), "orderer-1")


@pytest.mark.parametrize("text", ["[audit]\n", '[audit]\npath = "/var/{server}"\nfile_bytes = "1M"\nfiles = 2\n'])
def test_what_is_written_is_read_again(tmp_path: Path, text: str) -> None:
    file = load_cluster(write(tmp_path, SMALL + text))
    assert file.audit is not None
    assert load_cluster(write(tmp_path, dump_cluster(file))) == file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('path = "one.jsonl"', "path is 'one.jsonl': put {server} into it"),
        ("files = 0", "files is 0: use a whole number from 1 to 1000"),
        ("file_bytes = 1", "file_bytes is 1: use a whole number from 65536"),
        ("size = 1", "size is not known"),
    ],
)
def test_a_mistake_is_named_by_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"cluster.toml:8: {said}"):
        load_cluster(write(tmp_path, f"{SMALL}[audit]\n{text}\n"))
