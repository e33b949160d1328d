"""Whole clusters with TLS, of every engine: they work as without, and nobody else gets in."""

import asyncio
import json
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from tests.security.test_rolling_upgrade import Load
from tests.shipped import ENGINES

import ithaca
from ithaca.client.asking import ask_status
from ithaca.cluster.certs.authority import Authority, Issued
from ithaca.cluster.server_metrics import ask_metrics
from ithaca.cluster.status import OPEN
from ithaca.model.addresses import parse_address
from ithaca.model.config.cluster import load_cluster
from ithaca.model.errors import AuthenticationFailed, InvalidInput, ProtocolError
from ithaca.model.security.tls import VARIABLES
from ithaca.model.view import Address
from ithaca.runtime.tls import contexts
from ithaca.runtime.tls.contexts import contexts_of
from ithaca.testing import Cluster


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cluster_of_any_engine_works_with_tls(engine: str) -> None:
    with Cluster(engine=engine, tls=True) as cluster, ithaca.connect(cluster.bootstrap, tls=cluster.tls) as log:
        receipts = [log.append(b"%d" % number) for number in range(5)]
        log.append_many([b"a", b"b"])
        with log.read_range(1, log.tail()) as records:
            assert [record.value for record in records] == [b"0", b"1", b"2", b"3", b"4", b"a", b"b"]
        with log.subscribe("earliest") as subscription:
            assert next(subscription).position == receipts[0].position
        assert log.status().healthy
        assert cluster.status().problems() == []
        with pytest.raises(AuthenticationFailed, match="speaks TLS alone"):
            ithaca.connect(cluster.bootstrap, timeout=5)
        assert cluster.tls is not None
        with pytest.raises(AuthenticationFailed, match="has no certificate: clients need one"):
            ithaca.connect(cluster.bootstrap, timeout=5, tls=ithaca.TLS(cluster.tls.authority))
        others = Path(str(cluster.tls.authority)).parent / "other"
        with pytest.raises(AuthenticationFailed, match="has not proved who it is"):
            ithaca.connect(cluster.bootstrap, timeout=5, tls=ithaca.TLS(_other_authority(others)))


def _other_authority(directory: Path) -> Path:
    Authority.make(directory, "other")
    return directory / "ca.pem"


def test_servers_come_and_go_with_certificates_of_their_own() -> None:
    with Cluster(tls=True, spares=1, aggregators=1) as cluster:
        assert cluster.add_shard() == 1
        assert cluster.add_orderer() == 2
        with ithaca.connect(cluster.bootstrap, tls=cluster.tls) as log:
            cluster.kill_replica(0, 1)
            spare = next(str(address) for address in cluster.file.spares)
            assert log.admin.replace_replica(0, 1, spare) == 2
            assert log.append(b"after").position == 1
        status = asyncio.run(ask_status(cluster.file.orderers[0].address, cluster.tls))
        metrics = asyncio.run(ask_metrics(cluster.file.orderers[0].address, cluster.tls))
        assert status["role"] == "orderer"
        assert "ithaca_orderer_tail" in metrics


def test_a_directory_goes_on_with_its_authority(tmp_path: Path) -> None:
    with Cluster(tmp_path, tls=True) as cluster, ithaca.connect(cluster.bootstrap, tls=cluster.tls) as log:
        log.append(b"kept")
        authority = (tmp_path / "tls" / "ca.pem").read_bytes()
    with Cluster(tmp_path) as cluster, ithaca.connect(cluster.bootstrap, tls=cluster.tls) as log:
        assert log.read(1).value == b"kept"
    assert (tmp_path / "tls" / "ca.pem").read_bytes() == authority
    assert load_cluster(tmp_path / "cluster.toml").tls is not None
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "tls").glob("*.key")} == {0o600}


def test_a_cluster_without_tls_is_not_gone_on_with_as_one_with_it(tmp_path: Path) -> None:
    with Cluster(tmp_path):
        pass
    with pytest.raises(InvalidInput, match="made with --tls False"):
        Cluster(tmp_path, tls=True)


def test_the_environment_says_whom_to_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(tls=True) as cluster:
        assert cluster.tls is not None
        for name, path in zip(VARIABLES, cluster.tls.files, strict=True):
            monkeypatch.setenv(name, path)
        with ithaca.connect(cluster.bootstrap) as log:
            assert log.tail() == 1


def test_certificates_are_renewed_under_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "TLS_LOOK_S", 0.0)
    contexts_of.cache_clear()
    with Cluster(tls=True) as cluster, ithaca.connect(cluster.bootstrap, tls=cluster.tls) as log:
        authority = Authority(cluster.directory / "tls")
        pending = []
        for turn in range(4):
            for name in cluster.names:
                authority.issue_server(cluster.file.name, name, ["127.0.0.1"])
                pending += [log.submit(b"%d" % turn) for _ in range(20)]
            cluster.kill_server("shard-0-replica-1")  # everybody who was connected to it proves again who it is
            cluster.start_server("shard-0-replica-1")
        assert sorted(each.result(30).position for each in pending) == list(range(1, len(pending) + 1))
    contexts_of.cache_clear()


@pytest.mark.parametrize(
    ("engine", "orderers"),
    [("scalog", 1), *(pytest.param(engine, 3, marks=pytest.mark.campaign) for engine in ("scalog", "belfast", "raft"))],
)
def test_the_authority_is_changed_under_load(
    engine: str, orderers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/security.md says: both are trusted, then all certificates are renewed, then the new one alone is."""
    monkeypatch.setattr(contexts, "TLS_LOOK_S", 0.0)
    contexts_of.cache_clear()
    with Cluster(engine=engine, tls=True, orderers=orderers) as cluster:
        trusted = cluster.directory / "tls" / "ca.pem"
        issuer = Authority.make(tmp_path / "new", "new")
        new, old = (tmp_path / "new" / "ca.pem").read_bytes(), trusted.read_bytes()
        with ithaca.connect(cluster.bootstrap, tls=cluster.tls) as log:
            load = Load(log, 0)
            for authorities, is_renewed in ((old + new, False), (old + new, True), (new, True)):
                replaced(trusted, authorities)
                for name in cluster.names:
                    if is_renewed:
                        moved_into(trusted.parent, issuer.issue_server(cluster.file.name, name, ["127.0.0.1"]))
                    cluster.kill_server(name)  # everybody who was connected to it proves again who it is
                    cluster.start_server(name)
                    cluster.wait_healthy()
                    load.goes_on()
                moved_into(trusted.parent, issuer.issue_user(cluster.file.name, "operator"))
            number = load.end()
            with log.read_range(1, log.tail()) as records:
                assert [int(record.value) for record in records] == list(range(number))
    contexts_of.cache_clear()


def replaced(path: Path, data: bytes) -> None:
    """Put a file into the place of another at once."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)


def moved_into(directory: Path, issued: Issued) -> None:
    for path in issued:
        replaced(directory / path.name, path.read_bytes())
    (directory / issued.key.name).chmod(0o600)


@pytest.mark.parametrize("host", ["localhost"])
def test_a_name_is_proved_as_well_as_an_address(host: str, tmp_path: Path) -> None:
    """A certificate is of the host as it was dialled: this one names the address alone."""
    with Cluster(tls=True) as cluster:
        address = parse_address(cluster.bootstrap)
        with pytest.raises(AuthenticationFailed, match="Hostname mismatch"):
            ithaca.connect(str(Address(host, address.port)), timeout=5, tls=cluster.tls)


def test_a_client_that_is_not_known_gets_nothing_from_any_server() -> None:
    """Neither by the protocol nor over HTTP, from no server of the cluster."""
    with Cluster(tls=True, aggregators=1, spares=1) as cluster:
        assert cluster.tls is not None
        nobody = ithaca.TLS(cluster.tls.authority)
        for address in cluster.file.addresses():
            with pytest.raises(AuthenticationFailed, match="has no certificate: clients need one of a user of local"):
                asyncio.run(ask_status(address, nobody))
            with pytest.raises(ProtocolError, match="403 Forbidden"):
                asyncio.run(ask_metrics(address, nobody))
            assert asyncio.run(ask_status(address, cluster.tls))["state"]


def test_every_status_says_that_a_cluster_is_insecure(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        assert cluster.status().health.warnings == []
        file = cluster.file
    text = (tmp_path / "cluster.toml").read_text().replace("[cluster]\n", "[cluster]\ninsecure = true\n")
    (tmp_path / "cluster.toml").write_text(text)
    with Cluster(tmp_path) as cluster:
        assert cluster.file == replace(file, insecure=True)
        assert cluster.status().problems() == []
        assert cluster.status().health.warnings == [OPEN]
        assert all(server.status and server.status["insecure"] for server in cluster.status().servers)
        for address in cluster.file.addresses():
            with urllib.request.urlopen(f"http://{address}/health") as answer:
                assert json.load(answer)["insecure"]
