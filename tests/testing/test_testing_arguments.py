"""A cluster for tests that cannot be is refused before anything is started."""

from pathlib import Path
from typing import Any

import pytest
from tests.nonsense import faults, faults_of

from ithaca.model.errors import InvalidInput
from ithaca.testing import Cluster

USUAL: dict[str, Any] = {"name": "orderer-1", "shard": 0, "replica": 0, "server": 1}


def test_of_a_cluster_that_is_made() -> None:
    found = list(faults(Cluster, {}))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"shards": "2"}, "shards is '2': use a whole number from 1"),
        ({"shards": 0}, "shards is 0: use a whole number from 1"),
        ({"orderers": 0}, "orderers is 0"),
        ({"replicas": -1}, "replicas is -1: use a whole number from 1 to 15"),
        ({"aggregators": -1}, "aggregators is -1: use a whole number from 0"),
        ({"spares": -1}, "spares is -1"),
        ({"masking": "x"}, "masking is 'x': use True or False"),
        ({"tls": "x"}, "tls is 'x': use True or False"),
        ({"users": 1}, "users is 1: use True or False"),
        ({"engine": 5}, "engine is 5: use one of scalog"),
        ({"durability": "none"}, "durability is 'none': use one of fsync, os"),
        ({"failures": "mask"}, "failures is 'mask': use"),
    ],
)
def test_a_shape_that_cannot_be(shape: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Cluster(**shape)


def test_of_a_cluster_that_runs(tmp_path: Path) -> None:
    with Cluster(str(tmp_path / "text"), replicas=1) as cluster:
        found = list(faults_of(cluster, Cluster, USUAL))
        assert (tmp_path / "text" / "cluster.toml").exists()
    assert not found, "\n".join(found)
