"""The pytest plugin: a cluster, or a log on one, as a fixture.

```python
def test_my_service(ithaca_log):
    ithaca_log.append(b"hello")

@pytest.mark.parametrize("ithaca_cluster", [{"shards": 2, "orderers": 3}], indirect=True)
def test_failover(ithaca_cluster):
    ithaca_cluster.kill_replica(0, 1)

@pytest.mark.parametrize("ithaca_log", [{"timeout": "2s"}], indirect=True)
def test_that_does_not_wait_for_long(ithaca_log):
    ...
```

pytest loads this module in every run, so it imports nothing of ours until a fixture is asked for.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ithaca.model.interface import Log
    from ithaca.testing.cluster import Cluster


@pytest.fixture
def ithaca_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> "Iterator[Cluster]":
    """A fresh cluster in this process: one shard of two replicas, or what an indirect parameter says."""
    from ithaca.testing.cluster import Cluster

    with Cluster(tmp_path / "ithaca", **getattr(request, "param", {})) as cluster:
        yield cluster


@pytest.fixture
def ithaca_log(request: pytest.FixtureRequest, ithaca_cluster: "Cluster") -> "Iterator[Log]":
    """A handle on a fresh cluster; an indirect parameter has options of `ithaca.connect`, such as `timeout`."""
    import ithaca

    with ithaca.connect(ithaca_cluster.bootstrap, **getattr(request, "param", {})) as log:
        yield log
