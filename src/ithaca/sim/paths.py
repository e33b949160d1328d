"""Paths through the code that a campaign must have taken: those that only faults lead to.

Each is a function or method of the product, counted whenever it is called while a seed runs. A path that no seed
takes is code that nothing here proves.
"""

import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATHS: dict[str, str] = {
    "raft: election won": "ithaca.raft.core:RaftCore._count_votes",
    "raft: conflicting entries cut off": "ithaca.raft.node:Node.truncate",
    "raft: snapshot installed": "ithaca.raft.node:Node.install",
    "raft: log compacted": "ithaca.raft.node:Node.compact",
    "raft: follower unreachable": "ithaca.raft.leader:LeaderTerm.on_unreachable",
    "raft: log rewritten": "ithaca.storage.raftlog:RaftLog._rewrite",
    "raft: learner promoted": "ithaca.server.raft_host.members:MemberChanges._promoted",
    "raft: leader handed over": "ithaca.runtime.raft.driver:RaftDriver.submit_transfer",
    "order: told that it was removed": "ithaca.server.raft_host.host:RaftHost.told_removed",
    "order: cut refused": "ithaca.engines.scalog.server.orderer.leading:LeaderService._cut_refused",
    "order: snapshot taken": "ithaca.engines.scalog.ordering.state:OrderingState.snapshot",
    "order: lane closed": "ithaca.engines.scalog.ordering.lanes:LaneTable.close",
    "order: session moved": "ithaca.engines.scalog.ordering.sessions:SessionRegistry.move",
    "order: idle sessions looked at": "ithaca.engines.scalog.ordering.sessions:SessionRegistry.note",
    "order: idle sessions expired": "ithaca.engines.scalog.ordering.sessions:SessionRegistry.expire_idle",
    "order: parts renewed": "ithaca.engines.scalog.ordering.prepared.parts:PartTable.renew",
    "order: published without a writer": "ithaca.engines.scalog.ordering.prepared.parts:PartTable._published_before",
    "lane: session forgotten": "ithaca.storage.sessions:SessionTable.expired",
    "lane: sessions listed": "ithaca.storage.sessions:SessionTable.listed",
    "order: trimmed": "ithaca.engines.scalog.ordering.state:OrderingState._trim",
    "order: lanes forgotten": "ithaca.engines.scalog.ordering.lanes:LaneTable.forget",
    "order: shard registered": "ithaca.engines.scalog.ordering.shards:ShardTable.register",
    "order: shard finalized": "ithaca.engines.scalog.ordering.shards:ShardTable._finalize",
    "aggregator: reports passed on": "ithaca.engines.scalog.server.aggregator.relay:Relay._pass_reports",
    "aggregator: signs of life passed on": "ithaca.engines.scalog.server.aggregator.relay:Relay._sign_of_life",
    "aggregator: leader lost": "ithaca.engines.scalog.server.aggregator.relay:Relay.detached",
    "aggregator: orderers told": "ithaca.engines.scalog.server.aggregator.relay:Relay.tell_orderers",
    "order: replica sent elsewhere": "ithaca.engines.scalog.server.orderer.streams:NewsStreams.dismiss",
    "order: replica removed": "ithaca.engines.scalog.ordering.shards:ShardTable.remove",
    "order: replica added": "ithaca.engines.scalog.ordering.shards:ShardTable.add",
    "order: silent lane closed": "ithaca.engines.scalog.server.orderer.failures:Failures._mask",
    "order: silent replica removed": "ithaca.engines.scalog.server.orderer.failures:Failures._remove",
    "order: shard of a silent replica finalized": "ithaca.engines.scalog.server.orderer.failures:Failures._finalize",
    "replica: was removed": "ithaca.engines.scalog.replica.core:ReplicaCore._removed",
    "replica: learner was not needed": "ithaca.engines.scalog.storage.replica_meta:_move",
    "replica: no room for runs": "ithaca.engines.scalog.replica.reporting:RunsSync.refuse",
    "order: learner let go": "ithaca.engines.scalog.server.orderer.spares:Spares.let_go",
    "replica: was a spare": "ithaca.engines.scalog.server.replica.spare:SpareServer._become",
    "order: part opened": "ithaca.engines.scalog.ordering.prepared.parts:PartTable.open",
    "order: part sealed": "ithaca.engines.scalog.ordering.prepared.parts:PartTable.seal",
    "order: parts published": "ithaca.engines.scalog.ordering.prepared.parts:PartTable.publish",
    "order: parts aborted": "ithaca.engines.scalog.ordering.prepared.parts:PartTable.abort",
    "order: parts expired": "ithaca.engines.scalog.ordering.prepared.parts:PartTable.expire",
    "replica: part sealed": "ithaca.engines.scalog.replica.core:ReplicaCore._part_sealed",
    "replica: part dropped": "ithaca.engines.scalog.replica.core:ReplicaCore._part_dropped",
    "replica: part written before it was made": "ithaca.engines.scalog.replica.staging:Staging.made",
    "client: part gone": "ithaca.engines.scalog.client.append.part_writer:gone",
    "replica: joined": "ithaca.engines.scalog.replica.core:ReplicaCore._join",
    "replica: order lost": "ithaca.engines.scalog.replica.core:ReplicaCore._leave",
    "replica: lane closed": "ithaca.engines.scalog.replica.core:ReplicaCore._lane_closed",
    "replica: lane cut back": "ithaca.engines.scalog.replica.core:ReplicaCore._truncated",
    "replica: lane dropped": "ithaca.engines.scalog.replica.core:ReplicaCore._drop",
    "replica: positions fetched": "ithaca.engines.scalog.replica.core:ReplicaCore._runs_fetched",
    "replica: shard reclaimed": "ithaca.engines.scalog.replica.core:ReplicaCore._reclaimed",
    "replica: disk full": "ithaca.engines.scalog.replica.core:ReplicaCore._disk_full",
    "replica: wrong lane": "ithaca.engines.scalog.replica.appends:Appends._wrong_lane",
    "replica: repeated append": "ithaca.engines.scalog.replica.appends:Appends._repeat",
    "replica: session came": "ithaca.engines.scalog.replica.appends:Appends.session_came",
    "replica: filled from a peer": "ithaca.engines.scalog.replica.settling:Settling._fill",
    "replica: catch-up read from disk": "ithaca.engines.scalog.server.replica.feed:OwnLaneFeed._catch_up",
    "storage: torn tail cut off": "ithaca.storage.recovery:_cut",
    "storage: unmarked tail rewritten": "ithaca.storage.recovery:_rewrite",
    "storage: lane truncated": "ithaca.storage.truncation:truncate",
    "storage: segment rolled": "ithaca.storage.lane:Lane._roll",
    "storage: segment dropped": "ithaca.storage.lane:Lane._drop",
    "storage: fenced": "ithaca.storage.lane:Lane._fence",
    "storage: group taken back": "ithaca.storage.lane:Lane._take_back",
    "storage: lanes packed": "ithaca.engines.scalog.storage.packs:Packs.add",
    "storage: packs merged": "ithaca.engines.scalog.storage.packs:Packs._merge",
    "storage: lanes dropped from packs": "ithaca.engines.scalog.storage.packs:Packs.forget",
    "storage: lane read in its pack": "ithaca.engines.scalog.storage.packed_lane:PackedLane._tables",
    "storage: lane's files closed": "ithaca.engines.scalog.storage.held_lane:StoredLane.close_files",
    "storage: runs truncated": "ithaca.engines.scalog.storage.runs:Runs.truncate",
    "storage: runs trimmed": "ithaca.engines.scalog.storage.runs:Runs.trim",
    "client: connection lost under appends": "ithaca.engines.scalog.client.append.producer:Producer.lost",
    "client: append sent again": "ithaca.engines.scalog.client.append.producer:Producer._unsend",
    "client: outcome found in another lane": "ithaca.engines.scalog.client.append.producer:Producer._settle_placed",
    "client: lane given up": "ithaca.engines.scalog.client.append.appends:Appends._give_up",
    "client: appends rerouted": "ithaca.engines.scalog.client.append.appends:Appends._reroute",
    "client: stream moved to another replica": "ithaca.engines.scalog.client.read.stream:ShardStream.change_replica",
    "client: shard that takes no more": "ithaca.engines.scalog.client.append.appends:Appends._told",
    "client: every shard asked": "ithaca.engines.scalog.client.read.reading:Reading._ask_all",
}
"""What each is called here, and where it is: `module:function` or `module:Class.method`."""


@contextmanager
def counted(count: Callable[[str], None]) -> Iterator[None]:
    """Have every path counted, under its name."""
    changed: list[tuple[Any, str, Any]] = []
    try:
        for name, where in PATHS.items():
            owner, attribute = _find(where)
            original = owner.__dict__[attribute]
            changed.append((owner, attribute, original))
            setattr(owner, attribute, _counting(original, f"path {name}", count))
        yield
    finally:
        for owner, attribute, original in changed:
            setattr(owner, attribute, original)


def _find(where: str) -> tuple[Any, str]:
    module, _, path = where.partition(":")
    owner: Any = importlib.import_module(module)
    *classes, attribute = path.split(".")
    for each in classes:
        owner = getattr(owner, each)
    return owner, attribute


def _counting(original: Callable[..., Any], name: str, count: Callable[[str], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        count(name)
        return original(*arguments, **named)

    return wrapper
