"""What scenarios of the core of Raft begin with, and look at."""

from tests.raft.cluster import Cluster

from ithaca.raft.events import (
    Receive,
)
from ithaca.raft.messages import (
    AppendEntries,
    AppendReply,
    Configuration,
    DurableState,
    Entry,
    EntryKind,
    HardState,
    RequestVote,
    Snapshot,
    VoteReply,
)


def entry(index: int, term: int, data: bytes = b"x") -> Entry:
    return Entry(index, term, EntryKind.PAYLOAD, data)


def started(*terms: int, voters: tuple[int, ...] = (1, 2, 3), term: int = 0) -> Cluster:
    """Server 1 alone of its group, with a log of these terms."""
    entries = tuple(entry(index, each) for index, each in enumerate(terms, 1))
    cluster = Cluster(checked=False)
    snapshot = Snapshot(configuration=Configuration(voters))
    cluster.add(1, DurableState(HardState(term or max(terms, default=0)), snapshot, entries))
    return cluster


def append(term: int, previous: tuple[int, int], *entries: Entry, commit: int = 0) -> Receive:
    return Receive(AppendEntries(2, term, *previous, entries, commit))


def replies(cluster: Cluster) -> list[AppendReply]:
    taken = [message for _, _, message in cluster.take()]
    assert all(isinstance(message, AppendReply) for message in taken)
    return [message for message in taken if isinstance(message, AppendReply)]


def granted(cluster: Cluster, request: RequestVote) -> bool | None:
    """What server 1 answers; None for silence."""
    cluster.step(1, Receive(request))
    taken = cluster.take()
    if not taken:
        return None
    message = taken[0][2]
    assert isinstance(message, VoteReply)
    return message.granted
