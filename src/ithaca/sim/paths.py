"""Paths through the code that a campaign must have taken: those that only faults lead to.

Each is a function or method of the product, counted whenever it is called while a seed runs. A path that no seed
takes is code that nothing here proves.
"""

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

SHARED_PATHS: dict[str, str] = {
    "raft: election won": "ithaca.raft.core:RaftCore._count_votes",
    "raft: conflicting entries cut off": "ithaca.raft.node:Node.truncate",
    "raft: snapshot installed": "ithaca.raft.node:Node.install",
    "raft: log compacted": "ithaca.raft.node:Node.compact",
    "raft: follower unreachable": "ithaca.raft.leader:LeaderTerm.on_unreachable",
    "raft: log rewritten": "ithaca.storage.raftlog:RaftLog._rewrite",
    "raft: learner promoted": "ithaca.server.raft_host.members:MemberChanges._promoted",
    "raft: leader handed over": "ithaca.runtime.raft.driver:RaftDriver.submit_transfer",
    "raft: told that it was removed": "ithaca.server.raft_host.host:RaftHost.told_removed",
    "lane: session forgotten": "ithaca.storage.sessions:SessionTable.expired",
    "lane: sessions listed": "ithaca.storage.sessions:SessionTable.listed",
    "storage: torn tail cut off": "ithaca.storage.recovery:_cut",
    "storage: unmarked tail rewritten": "ithaca.storage.recovery:_rewrite",
    "storage: lane truncated": "ithaca.storage.truncation:truncate",
    "storage: segment rolled": "ithaca.storage.lane:Lane._roll",
    "storage: segment dropped": "ithaca.storage.lane:Lane._drop",
    "storage: fenced": "ithaca.storage.lane:Lane._fence",
    "storage: group taken back": "ithaca.storage.lane:Lane._take_back",
}
"""Of all engines: what each is called here, and where it is, `module:function` or `module:Class.method`."""


@contextmanager
def counted(paths: Mapping[str, str], count: Callable[[str], None]) -> Iterator[None]:
    """Have every path counted, under its name."""
    changed: list[tuple[Any, str, Any]] = []
    try:
        for name, where in paths.items():
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
