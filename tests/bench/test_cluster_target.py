"""The cluster that is measured, as measurements see it."""

from pathlib import Path

import pytest

from ithaca.bench.cluster.append import spread
from ithaca.bench.cluster.target import measured_cluster
from ithaca.testing import Cluster


@pytest.mark.parametrize(("engine", "shards"), [("raft", 1), ("scalog", 2)])
def test_a_log_whose_engine_has_no_shards_counts_as_one(engine: str, shards: int, tmp_path: Path) -> None:
    with (
        Cluster(tmp_path / "cluster", engine=engine, shards=shards) as cluster,
        measured_cluster(tmp_path / "measured", cluster.bootstrap, print) as measured,
    ):
        assert measured.shards == tuple(range(shards))
        assert spread(measured, 2) == ([None, None] if shards == 1 else [0, 1])
