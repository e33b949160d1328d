"""A Raft group through thousands of bad days, each from a seed; and planted bugs, to see them found.

A seed that ever failed stays here by its number or, better, as a test of `test_core`.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from tests.raft.raft_checker import Checker, Violation
from tests.raft.raft_network import run_seed
from tests.raft.raft_world import COUNTERS

from ithaca.raft import follower
from ithaca.raft.chunks import IncomingSnapshot
from ithaca.raft.election import Election
from ithaca.raft.events import Effect, Persist
from ithaca.raft.leader import LeaderTerm
from ithaca.raft.membership import Membership
from ithaca.raft.messages import AppendEntries, DurableState, Entry, HardState
from ithaca.raft.node import Node
from ithaca.raft.persistence import Persistence
from ithaca.storage import raftlog
from ithaca.storage.disk import Disk
from ithaca.storage.raftlog import RaftLog

SAMPLE_SEEDS = 60
CAMPAIGN_SEEDS = 2000
PLANTED_SEEDS_MAX = 1000


def counts_of(seeds: Iterable[int]) -> Counter[str]:
    """Run the seeds; any violation raises. Adds up what happened."""
    total: Counter[str] = Counter(dict.fromkeys(COUNTERS, 0))
    for seed in seeds:
        total.update(run_seed(seed).counts)
    return total


def idle(total: Counter[str]) -> list[str]:
    return [name for name, count in total.items() if count == 0]


def test_a_sample_of_seeds_holds_every_property_and_tries_everything() -> None:
    assert idle(counts_of(range(SAMPLE_SEEDS))) == []


@pytest.mark.campaign
@pytest.mark.parametrize("start", range(0, CAMPAIGN_SEEDS, 100))
def test_the_campaign_holds_every_property(start: int) -> None:
    assert idle(counts_of(range(start, start + 100))) == []


def test_a_seed_reproduces_its_run() -> None:
    assert run_seed(7) == run_seed(7)
    assert run_seed(7).trace != run_seed(8).trace


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_run_does_not_depend_on_the_hashes_of_strings(hash_seed: str) -> None:
    code = "from tests.raft.raft_network import run_seed; print(run_seed(11).trace)"
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    printed = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == run_seed(11).trace


def test_a_violation_tells_how_to_reproduce_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaderTerm, "may_commit", lambda _self, _index: False)
    with pytest.raises(Violation) as caught:
        run_seed(3)
    text = str(caught.value)
    assert "no progress" in text
    assert "seed 3\nconfiguration Swarm(" in text
    assert "AppendEntries" in text


# Planted bugs. Each is put in from outside, and must be found by the seeds; the numbers are those that
# found it last, tried first so that the test is quick.

Patch = tuple[object, str, object]
_flush = Persistence.flush


def forget_vote(self: Persistence, hard_state: HardState) -> list[Effect]:
    return _flush(self, HardState(hard_state.term, None))


def answer_first(self: Persistence, hard_state: HardState) -> list[Effect]:
    effects = _flush(self, hard_state)
    return sorted(effects, key=lambda effect: isinstance(effect, Persist))


def cut_always(node: Node, entries: tuple[Entry, ...]) -> None:
    if entries and entries[0].index <= node.log.last_index:
        node.truncate(entries[0].index)
    node.append(entries)


def nothing(*_arguments: object) -> None:
    """In the place of a check that would see the bug itself, so that its consequences must be seen."""


def always(value: object) -> Callable[..., object]:
    return lambda *_arguments: value


def fits_unless_missing(node: Node, message: AppendEntries) -> bool:
    return node.log.term_at(message.previous_index) is not None


def trust_page_cache(cls: type[RaftLog], disk: Disk, directory: str) -> tuple[RaftLog, DurableState]:
    """Recovery that goes on in the file it found, although a sync of it may have failed."""
    found = raftlog.verify(disk, directory)
    log = cls(disk, directory, 0, raftlog.VERSION)
    log._generation, log._end = found.place.generation, found.valid_bytes
    log._file = disk.open(f"{directory}/{raftlog.FILE_NAME}")
    return log, found.state


# What is wrong: (the property that must be seen not to hold, seeds, patches).
PLANTED: dict[str, tuple[str, list[int], list[Patch]]] = {
    "the vote is not persisted": (
        "1",
        [72, 102],
        [(Persistence, "flush", forget_vote), (Checker, "promised", nothing)],
    ),
    "old terms are committed by counting": ("4", [139, 625], [(LeaderTerm, "may_commit", always(True))]),
    "appends are not matched": ("3", [28, 36], [(follower, "matches", fits_unless_missing)]),
    "answers leave before the disk": (
        "6",
        [],
        [(Persistence, "flush", answer_first), (Checker, "promised", nothing)],
    ),
    "reads skip the heartbeats": ("7", [144, 2075], [(LeaderTerm, "is_round_answered", always(True))]),
    "two changes at once": (
        "4",
        [763],
        [(Membership, "index", property(always(0))), (Checker, "_check_change", nothing)],
    ),
    "chunks of two snapshots are joined": ("5", [67], [(IncomingSnapshot, "is_of", always(True))]),
    "late appends cut the log": ("6", [], [(follower, "store", cut_always), (Checker, "promised", nothing)]),
    "anyone gets a vote": ("4", [], [(Election, "_is_up_to_date", always(True))]),
    "a restart launders a failed sync": ("6", [22, 37], [(RaftLog, "open", classmethod(trust_page_cache))]),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, known_seeds, patches = PLANTED[bug]
    for owner, name, value in patches:
        monkeypatch.setattr(owner, name, value)
    for seed in (*known_seeds, *range(PLANTED_SEEDS_MAX)):
        try:
            run_seed(seed)
        except Violation as violation:
            if str(violation).startswith(f"Violation: {broken}:"):
                return
    raise AssertionError(f"{PLANTED_SEEDS_MAX} seeds did not show property {broken} broken although {bug}")
