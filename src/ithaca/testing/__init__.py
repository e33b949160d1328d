"""A real cluster inside the process of a test: the servers of `ithaca.server`, on one loop, in one thread.

```python
from ithaca.testing import Cluster

with Cluster(shards=2) as cluster, ithaca.connect(cluster.bootstrap) as log:
    log.append(b"hello")
    cluster.kill_replica(0, 1)
```

With pytest, the fixtures `ithaca_cluster` and `ithaca_log` are there without an import (`plugin`). `cluster` is the one
of the example, and `shape` what it may consist of; its servers write to a `mortal_disk`, from which killing cuts them
off. Names are loaded when they are first used, because pytest loads the plugin in every run.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ithaca.testing.cluster import Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> Any:
    if name == "Cluster":
        from ithaca.testing.cluster import Cluster

        return Cluster
    raise AttributeError(f"module 'ithaca.testing' has no attribute {name!r}")
