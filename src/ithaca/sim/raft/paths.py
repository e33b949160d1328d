"""The named paths of this engine: code of it that only faults lead to (`sim.paths`)."""

from ithaca.sim.paths import SHARED_PATHS

_OF_LANES = ("lane: session forgotten", "lane: sessions listed")
"""What the sessions of other engines lead to."""

PATHS: dict[str, str] = {
    **{name: where for name, where in SHARED_PATHS.items() if name not in _OF_LANES},
    "raft: uncommitted entries dropped": "ithaca.raft.node:Node.drop_uncommitted",
    "log: ranges cut": "ithaca.engines.raft.storage.shared_log:SharedLog._cut_ranges",
    "log: named ranges found": "ithaca.engines.raft.storage.names:_entry_of",
    "log: named ranges written": "ithaca.engines.raft.storage.shared_log:SharedLog._write_named",
    "log: lane cut": "ithaca.engines.raft.storage.shared_log:SharedLog._discard_behind",
    "log: lane copied": "ithaca.engines.raft.storage.shared_log:SharedLog.copy",
    "log: compaction point written": "ithaca.engines.raft.storage.shared_log:SharedLog._replace",
    "log: trimmed": "ithaca.engines.raft.storage.shared_log:SharedLog.trim",
    "leader: range refused": "ithaca.engines.raft.replog.placing:Placing.refused",
    "leader: ended": "ithaca.engines.raft.server.leading:RangeLeaderService.end",
    "client: connection lost under appends": "ithaca.engines.raft.client.producer:Producer.lost",
    "client: append sent again": "ithaca.client.appending.send_queue:SendQueue.unsend",
    "client: stream moved to another server": "ithaca.engines.raft.client.stream:Stream.change_server",
}
