"""What a cluster's file says about TLS; each mistake is named by its line."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from tests.model.small_cluster import SMALL, write

from ithaca.model.config.cluster import load_cluster
from ithaca.model.config.text import dump_cluster
from ithaca.model.config.tls import ClusterTls, TlsClients, TlsMode
from ithaca.model.errors import ConfigError, InvalidInput
from ithaca.model.security.identity import Identity, identity_in, is_server, server_problem
from ithaca.model.security.tls import TLS, tls_from_environment


@pytest.mark.parametrize(
    "text",
    [
        "[tls]\n",
        '[tls]\nmode = "offered"\nclients = "anybody"\n',
        '[tls]\nauthority = "/etc/ssl/bank.pem"\ncertificate = "own.pem"\nkey = "own.key"\n',
    ],
)
def test_what_is_written_is_read_again(tmp_path: Path, text: str) -> None:
    file = load_cluster(write(tmp_path, SMALL + text))
    assert file.tls is not None
    assert load_cluster(write(tmp_path, dump_cluster(file))) == file


def test_without_the_table_there_is_none(tmp_path: Path) -> None:
    file = load_cluster(write(tmp_path, SMALL))
    assert (file.tls, file.client_tls) == (None, None)
    assert "[tls]" not in dump_cluster(file)


def test_files_are_found_beside_the_cluster_file_unless_they_are_elsewhere(tmp_path: Path) -> None:
    tls = load_cluster(write(tmp_path, f'{SMALL}[tls]\nauthority = "/etc/ssl/bank.pem"\n')).tls
    assert tls is not None
    assert tls.of_server("shard-0-replica-1") == TLS(
        "/etc/ssl/bank.pem", tmp_path / "tls/shard-0-replica-1.pem", tmp_path / "tls/shard-0-replica-1.key"
    )
    assert tls.of_clients() == tls.of_server("operator")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('mode = "maybe"', "mode is 'maybe': use one of offered, preferred, required"),
        ('clients = "friends"', "clients is 'friends': use one of known, anybody"),
        ('certificat = "a.pem"', r"certificat is not known \(did you mean certificate\?\)"),
        ('certificate = ""', "certificate is empty: name a file"),
        ("key = 7", "key is 7: use text in quotes"),
        ('authority = "{server}.pem"', "authority names no file that all servers share"),
    ],
)
def test_a_mistake_is_named_by_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"cluster.toml:8: {said}"):
        load_cluster(write(tmp_path, f"{SMALL}[tls]\n{text}\n"))


def test_clients_speak_tls_as_soon_as_servers_use_it_themselves() -> None:
    modes = {"offered": None, "preferred": TLS("tls/ca.pem"), "required": TLS("tls/ca.pem")}
    tls = ClusterTls(clients="anybody")
    assert {mode: replace(tls, mode=mode).of_clients() for mode in modes} == modes  # type: ignore[arg-type]
    operator = TLS("tls/ca.pem", "tls/operator.pem", "tls/operator.key")
    assert replace(tls, clients="known").of_clients() == operator


def test_a_cluster_is_closed_if_nothing_is_said_in_the_open_and_clients_are_known() -> None:
    closed = [
        (mode, clients)
        for mode in get_args(TlsMode)
        for clients in get_args(TlsClients)
        if ClusterTls(mode=mode, clients=clients).is_closed
    ]
    assert closed == [("required", "known")]


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("[cluster]\n", False),
        ("[cluster]\ninsecure = false\n", False),
        ("[cluster]\ninsecure = true\n", True),
        ("[cluster]\ninsecure = true\n[tls]\n", False),
        ('[cluster]\ninsecure = true\n[tls]\nclients = "anybody"\n', True),
        ('[cluster]\ninsecure = true\n[tls]\nmode = "preferred"\n', True),
    ],
)
def test_what_is_said_to_be_insecure_is_so_unless_it_is_closed(tmp_path: Path, text: str, is_open: bool) -> None:
    file = load_cluster(write(tmp_path, text + SMALL))
    assert file.is_open == is_open
    assert load_cluster(write(tmp_path, dump_cluster(file))) == file


def test_insecure_is_a_matter_of_yes_or_no(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cluster.toml:2: insecure is 'yes': use true or false"):
        load_cluster(write(tmp_path, f'[cluster]\ninsecure = "yes"\n{SMALL}'))


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="tls has no key"):
        TLS("ca.pem", "a.pem")
    with pytest.raises(InvalidInput, match="tls has no certificate"):
        TLS("ca.pem", key="a.key")
    with pytest.raises(InvalidInput, match="authority is 7"):
        TLS(7)  # type: ignore[arg-type]
    monkeypatch.setenv("ITHACA_TLS_KEY", "a.key")
    with pytest.raises(InvalidInput, match="ITHACA_TLS_AUTHORITY is not"):
        tls_from_environment()
    monkeypatch.setenv("ITHACA_TLS_AUTHORITY", "ca.pem")
    monkeypatch.setenv("ITHACA_TLS_CERTIFICATE", "a.pem")
    assert tls_from_environment() == TLS("ca.pem", "a.pem", "a.key")


@pytest.mark.parametrize(
    "identity",
    [
        Identity("bank", server="orderer-1"),
        Identity("Größe und /?#%", server="shard-0-replica-1"),
        Identity("bank", user="alice"),
        Identity("bank", user="a/b ../c"),
    ],
)
def test_an_identity_is_read_again(identity: Identity) -> None:
    assert identity_in([identity.uri]) == identity
    assert identity_in(["ithaca:", "http://bank/orderer-1", identity.uri, "ithaca://other/orderer-2"]) == identity


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "ithaca://bank",
        "ithaca://bank/",
        "ithaca:///orderer-1",
        "ithaca://bank/user/",
        "ithaca://bank/user/a/b",
        "ithaca://bank/a/b",
        "ithaca://bank/orderer-1?role=orderer-2",
        "ithaca://bank/orderer-1#2",
        "ithaca://[bank/orderer-1",
    ],
)
def test_what_says_nobody_is_nobody(uri: str) -> None:
    assert identity_in([uri]) is None


def test_a_server_is_what_its_certificate_says_and_nothing_else() -> None:
    replica = Identity("bank", server="shard-0-replica-1")
    assert server_problem(replica, "bank", "replica", "0/1") is None
    for cluster, role, name in [
        ("shop", "replica", "0/1"),
        ("bank", "replica", "0/2"),
        ("bank", "orderer", "1"),
        ("bank", "replica", "spare"),
        ("bank", "replica", "../0/1"),
    ]:
        assert server_problem(replica, cluster, role, name) is not None
    assert not is_server(Identity("bank", user="shard-0-replica-1"), "bank")
    assert server_problem(Identity("bank", user="orderer-1"), "bank", "orderer", "1") is not None
