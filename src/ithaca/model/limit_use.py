"""How much of each limit is used, and what is said when little of it is left.

Servers say of themselves how much they have used (`engines.scalog.server.limit_uses`), as a part of their status and as
metrics. Both verdicts on a cluster, `log.status()` and `ithaca status`, warn by the rule in here. docs/operations.md,
"Limits", says more of each.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ithaca.model.limits import LIMIT_WARNED_PERCENT

Uses = dict[str, tuple[int, int]]
"""By the name of a limit: what is used of it, and how much there is."""


class Limit(NamedTuple):
    """What is said of a limit."""

    what: str
    way_out: str
    of_cluster: bool = False
    """Whether it is one table of all orderers, which is told once."""


LIMITS: Mapping[str, Limit] = {
    "named_sessions": Limit(
        "sessions with a name", "expire those that do not come back (ithaca session list)", of_cluster=True
    ),
    "anonymous_sessions": Limit(
        "sessions of plain appends", "share handles: one that was idle for longest loses its session", of_cluster=True
    ),
    "writers": Limit("writers", "forget those that do not come back (ithaca writer list)", of_cluster=True),
    "consumers": Limit("named consumers", "delete those that nobody needs (ithaca consumer list)", of_cluster=True),
    "users": Limit("users", "revoke those that nobody needs (ithaca user list)", of_cluster=True),
    "parts": Limit("parts that are not published", "publish them, abort them, or prepare larger ones", of_cluster=True),
    "parts_unfinished": Limit(
        "parts that are being written in one shard", "finish some, write fewer at once, or add a shard", of_cluster=True
    ),
    "parts_published": Limit(
        "published parts in one shard", "trim, add a shard, or prepare larger parts", of_cluster=True
    ),
    "replicas": Limit("replicas", "finalize shards that are not needed", of_cluster=True),
    "state_bytes": Limit(
        "bytes of the order's state", "expire sessions, forget writers, publish or abort parts", of_cluster=True
    ),
    "view_bytes": Limit("bytes of the view", "trim, so that finalized shards are reclaimed", of_cluster=True),
    "cuts_unsynced": Limit(
        "cuts that wait for a shard's disks", "look after the slow or full disks of its replicas", of_cluster=True
    ),
    "cut_runs_unsynced": Limit(
        "runs in cuts that wait for a shard's disks",
        "look after the slow or full disks of its replicas",
        of_cluster=True,
    ),
    "lost_ranges": Limit("ranges of lost records", "trim what is before them", of_cluster=True),
    "shard_numbers": Limit("numbers for shards", "have shards come and go less often", of_cluster=True),
    "replica_numbers": Limit(
        "numbers for replicas of one shard", "add another shard, and finalize that one", of_cluster=True
    ),
    "part_numbers": Limit("numbers for parts of one replica", "replace that replica by a spare", of_cluster=True),
    "orderers": Limit("places for orderers", "remove those that are not needed", of_cluster=True),
    "orderer_numbers": Limit("numbers for orderers", "skip none when orderers are added", of_cluster=True),
    "spares": Limit("spares that wait", "use some of them, or stop them"),
    "uncommitted_entries": Limit(
        "entries that are proposed and not agreed on", "look after the orderers and their disks"
    ),
    "uncommitted_bytes": Limit("bytes that are proposed and not agreed on", "look after the orderers and their disks"),
    "reads_waiting": Limit("reads that wait for a majority", "look after the other orderers and the network"),
    "pending_bytes": Limit("bytes that are accepted and not ordered", "look after the shard's other replicas"),
    "runs_unsynced": Limit("runs that wait for their sync", "look after its disk, which is full or slow"),
    "copies_quarantined": Limit("copies that were quarantined", "look at them, and delete what nobody needs"),
    "clients": Limit("connections of clients", "close some, share handles, or add replicas to read from"),
    "connections": Limit("connections", "put aggregators between it and the replicas"),
    "frames_bytes": Limit("bytes of unfinished frames", "look for clients that send large batches over slow links"),
    "descriptors": Limit("files and connections that the process may open", "raise its limit (ulimit -Hn)"),
    "disk_bytes": Limit("bytes of its file system", "trim, give it retention, or give it a larger disk"),
}
"""Every limit that servers speak of."""


def is_near(used: int, maximum: int) -> bool:
    """Whether so much is used that somebody should know.

    >>> is_near(79, 100), is_near(80, 100), is_near(0, 0)
    (False, True, False)
    """
    return used > 0 and used * 100 >= maximum * LIMIT_WARNED_PERCENT


def limit_warnings(servers: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """A sentence for each limit that is nearly reached, of servers by their names and what they say of themselves."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for server, status in servers:
        for name, (used, maximum) in status.get("limits", {}).items():
            if name in LIMITS and is_near(used, maximum):
                who = "the ordering layer" if LIMITS[name].of_cluster else server
                found[who, name] = max(found.get((who, name), (0, 0)), (used, maximum))
    return [
        f"{who} has used {used} of {maximum} {LIMITS[name].what} ({name}): {LIMITS[name].way_out}"
        for (who, name), (used, maximum) in sorted(found.items())
    ]
