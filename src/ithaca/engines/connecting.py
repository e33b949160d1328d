"""Connecting to a cluster from synchronous code: `ithaca.connect`."""

from collections.abc import Sequence

from ithaca.client.portal import portal
from ithaca.client.sync_log import SyncClusterLog
from ithaca.engines.scalog.client import log
from ithaca.model import interface
from ithaca.model.interface import ShardPolicy
from ithaca.model.limits import INFLIGHT_BYTES_MAX
from ithaca.model.records import Compression


def connect(
    bootstrap: str | Sequence[str],
    *,
    timeout: float = 30,
    compression: Compression = "none",
    shard_policy: ShardPolicy | None = None,
    inflight_bytes_max: int = INFLIGHT_BYTES_MAX,
) -> interface.ClusterLog:
    """Connect to a cluster.

    `bootstrap` names one or more orderers; the others, and the replicas, are found through them. `timeout` bounds
    every call that is not given one of its own. All handles of a process share one thread, which is started
    with the first of them.

    >>> import ithaca
    >>> ithaca.connect("127.0.0.1")
    Traceback (most recent call last):
        ...
    ithaca.model.errors.InvalidInput: '127.0.0.1' is not an address: write it as "host:port", IPv6 as "[::1]:7600"
    """

    async def connected() -> log.AsyncClusterLog:
        return await log.connect(
            bootstrap,
            timeout=timeout,
            compression=compression,
            shard_policy=shard_policy,
            inflight_bytes_max=inflight_bytes_max,
        )

    way_in = portal()
    twin = way_in.run(connected)
    return SyncClusterLog(way_in, twin, twin, compression=compression, inflight_bytes_max=inflight_bytes_max)
