"""A follower that is far behind is fed slowly while others commit, and is never left behind."""

import msgspec
from tests.raft.cluster import SETTINGS, Cluster

from ithaca.raft.events import Propose, Receive, SnapshotTaken
from ithaca.raft.limits import RAFT_CATCH_UP_EXTRA, RAFT_CATCH_UP_IDLE_MS, RAFT_CATCH_UP_LAG_ENTRIES
from ithaca.raft.messages import AppendEntries, Entry

ENTRY_BYTES = 100_000
"""What each entry weighs: much more than what a follower gets by the clock."""


def weigh(entry: Entry) -> int:
    return ENTRY_BYTES


PACED = msgspec.structs.replace(
    SETTINGS, paces=True, append_entries_max=1, inflight_appends_max=2, weigh=weigh, trailing_entries=0
)


class Behind:
    """A group of which server 3 has missed so many entries; each round commits another one without it."""

    def __init__(self, missed: int = 300) -> None:
        self.cluster = Cluster(1, 2, 3, settings=PACED)
        self.cluster.elect(1)
        self.got = 0
        for _ in range(missed):
            self.propose()
            self.cluster.take(to=3)
            while self.cluster.deliver():
                self.cluster.take(to=3)
        self.cluster.tick(1, SETTINGS.heartbeat_ms)
        self._deliver()

    def propose(self) -> None:
        self.cluster.step(1, Propose(1, (b"x",)))

    def _deliver(self) -> None:
        while self.cluster.network:
            for _, to, message in self.cluster.take():
                self.got += to == 3 and isinstance(message, AppendEntries) and len(message.entries)
                if to in self.cluster.cores:
                    self.cluster.step(to, Receive(message))

    def round(self, passed_ms: int = 1) -> int:
        """Commit an entry; how many server 3 got meanwhile."""
        before = self.got
        self.cluster.tick(1, passed_ms)
        self.propose()
        self._deliver()
        return self.got - before

    @property
    def lag(self) -> int:
        return self.cluster.cores[1].commit_index - self.cluster.cores[3].node.log.last_index

    def idle(self) -> None:
        for _ in range(2 + RAFT_CATCH_UP_IDLE_MS // SETTINGS.heartbeat_ms):
            self.cluster.tick(1, SETTINGS.heartbeat_ms)
            self._deliver()


def test_it_gets_what_is_committed_and_a_share_of_that_until_it_is_there() -> None:
    behind = Behind()
    assert behind.lag > 150
    rounds = [behind.round() for _ in range(100)]
    assert 100 + 100 // RAFT_CATCH_UP_EXTRA - 5 <= sum(rounds) <= 100 + 100 // RAFT_CATCH_UP_EXTRA + 5
    while behind.lag > RAFT_CATCH_UP_LAG_ENTRIES:
        behind.round()
    behind.round()
    assert behind.lag == 0, "nobody who is nearly there is held back"


def test_it_gets_everything_when_nothing_is_committed() -> None:
    behind = Behind()
    behind.round()
    assert behind.lag > 150
    behind.idle()
    assert behind.lag == 0


def test_who_waits_for_it_does_not_wait_for_its_pace() -> None:
    behind = Behind()
    behind.round()
    del behind.cluster.cores[2]
    behind.propose()
    behind.idle()
    assert behind.lag == 0
    assert behind.cluster.cores[1].commit_index == behind.cluster.cores[1].node.log.last_index


def test_what_it_lacks_is_kept_when_the_leader_compacts() -> None:
    behind = Behind()
    behind.round()
    leader = behind.cluster.cores[1]
    behind.cluster.step(1, SnapshotTaken(leader.commit_index, b""))
    assert leader.node.log.first_index <= behind.cluster.cores[3].node.log.last_index + 1
    behind.idle()
    assert behind.lag == 0
    assert not any(type(each).__name__ == "Snapshot" for each in behind.cluster.applied[3])
