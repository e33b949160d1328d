"""Servers that were started again: what they say of tokens before they have applied what they hold."""

from pathlib import Path

import pytest

import ithaca
from ithaca.model.engine import EngineName
from ithaca.model.errors import AuthenticationFailed, Unavailable
from ithaca.testing import Cluster


@pytest.mark.parametrize("engine", ["scalog", "raft"])
def test_a_server_that_hears_no_leader_yet_refuses_no_token(tmp_path: Path, engine: EngineName) -> None:
    """After a power failure it once called all tokens invalid, and clients gave up."""
    with Cluster(tmp_path / "cluster", engine=engine, orderers=3, users=True) as cluster:
        with ithaca.connect(cluster.bootstrap, token=cluster.token) as operator:
            token = operator.admin.add_user("alice", ["read", "append"])
        assert token is not None
        with ithaca.connect(cluster.bootstrap, token=token) as log:
            log.append(b"a")
        orderers = [name for name in cluster.names if name.startswith("orderer")]
        for name in orderers:
            cluster.kill_server(name)
        cluster.start_server(orderers[0])
        with (
            pytest.raises(Unavailable, match="this server has not heard who the users are"),
            ithaca.connect(cluster.bootstrap, token=token, timeout=2) as log,
        ):
            log.tail()
        for name in orderers[1:]:
            cluster.start_server(name)
        with ithaca.connect(cluster.bootstrap, token=token) as log:
            assert log.read(1).value == b"a"
            with pytest.raises(AuthenticationFailed), ithaca.connect(cluster.bootstrap, token=token + "x") as other:
                other.tail()
