"""`ithaca certs`: an authority, what it issues, and what is said of wrong input."""

from pathlib import Path

import pytest
from tests.cli.command import ithaca, json_lines
from tests.model.small_cluster import SMALL, write

import ithaca as library
from ithaca.model.addresses import parse_address
from ithaca.runtime.tls.contexts import TlsContexts


def test_an_authority_issues_to_every_server_of_a_file(tmp_path: Path) -> None:
    config, tls = write(tmp_path, f'[cluster]\nname = "bank"\n{SMALL}'), tmp_path / "tls"
    ithaca("certs", "init", "--dir", tls, "--cluster", "bank")
    said = ithaca("certs", "issue", "--dir", tls, "--config", config).stdout.decode()
    assert [line.split()[1] for line in said.splitlines()] == [
        str(tls / f"{name}.pem") for name in ("orderer-1", "shard-0-replica-0", "shard-0-replica-1")
    ]
    ithaca("certs", "issue", "--dir", tls, "--cluster", "bank", "--user", "alice", "--days", "7")
    (shown,) = json_lines(ithaca("certs", "show", tls / "shard-0-replica-1.pem", "--json").stdout)
    assert shown["uri"] == "ithaca://bank/shard-0-replica-1"
    assert shown["hosts"] == ["127.0.0.1"]
    assert b"user alice of bank" in ithaca("certs", "show", tls / "alice.pem").stdout
    assert b"an authority" in ithaca("certs", "show", tls / "ca.pem").stdout
    for name in ("orderer-1", "alice"):
        TlsContexts(library.TLS(tls / "ca.pem", tls / f"{name}.pem", tls / f"{name}.key"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["issue", "--cluster", "bank", "--user", "alice"], b"there is no authority in"),
        (["show", "nowhere.pem"], b"cannot be read"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, arguments: list[str], said: bytes) -> None:
    where = [] if arguments[0] == "show" else ["--dir", str(tmp_path)]
    assert said in ithaca("certs", *arguments, *where, status=1).stderr


@pytest.mark.parametrize("name", ["../alice", "a/b", ".hidden", "", "ca", "x" * 65])
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    from ithaca.cluster.certs.authority import Authority
    from ithaca.model.errors import InvalidInput

    authority = Authority.make(tmp_path / "tls", "bank")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInput):
        authority.issue_user("bank", name)
    with pytest.raises(InvalidInput):
        authority.issue_server("bank", name, ["127.0.0.1"])
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(InvalidInput, match="already"):
        Authority.make(tmp_path / "tls", "bank")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], b"give one of --config, --server and --user"),
        (["--user", "alice"], b"give --cluster"),
        (["--cluster", "bank", "--server", "orderer-1"], b"give --host"),
        (["--cluster", "bank", "--user", "alice", "--host", "x"], b"a user has no --host"),
        (["--cluster", "bank", "--user", "alice", "--server", "orderer-1"], b"give one of"),
    ],
)
def test_wrong_usage_is_named(tmp_path: Path, arguments: list[str], said: bytes) -> None:
    from ithaca.cluster.certs.authority import Authority

    Authority.make(tmp_path, "bank")
    assert said in ithaca("certs", "issue", "--dir", tmp_path, *arguments, status=2).stderr


def test_a_cluster_with_tls_is_one_command(tmp_path: Path) -> None:
    from tests.cluster.free_base import free_base

    directory, port = tmp_path / "private", free_base(3)
    small = ["--shards", "1", "--orderers", "1", "--port", str(port)]
    try:
        said = ithaca("up", "--dir", directory, *small, "--tls", "--detach").stdout.decode()
        exports = [line.split()[1].split("=") for line in said.splitlines() if "export" in line]
        trusting = dict(exports)
        assert list(trusting) == ["ITHACA_TLS_AUTHORITY", "ITHACA_TLS_CERTIFICATE", "ITHACA_TLS_KEY"]
        nobody = dict(exports[:1])
        first = str(parse_address(f"127.0.0.1:{port}"))
        ithaca("append", "-b", first, stdin=b"hello\n", env=trusting)
        assert ithaca("read", "-b", first, env=trusting).stdout.endswith(b"hello\n")
        assert b"has no certificate" in ithaca("read", "-b", first, status=1, env=nobody).stderr
        assert b"speaks TLS alone" in ithaca("read", "-b", first, status=1).stderr
        (report,) = json_lines(ithaca("status", "--dir", directory, "--json").stdout)
        assert report["healthy"]
        (report,) = json_lines(ithaca("status", "-b", first, "--json", env=trusting).stdout)
        assert report["healthy"]
        ithaca("shard", "add", "--dir", directory)
        assert (directory / "tls" / "shard-1-replica-0.pem").exists()
    finally:
        ithaca("down", "--dir", directory)
