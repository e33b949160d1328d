"""How a follower takes the leader's entries and snapshots (figure 2, "Receiver implementation"; §5.3, §7).

All functions are called with a message of the current term, whose sender is therefore the leader. Their
answers are promises, and wait for the disk, but for those to chunks of a snapshot that is not whole yet.
"""

from ithaca.raft.chunks import IncomingSnapshot
from ithaca.raft.events import FetchSnapshot
from ithaca.raft.messages import (
    AppendEntries,
    AppendReply,
    ChunkReply,
    Entry,
    InstallSnapshot,
    ServerId,
    Snapshot,
    SnapshotChunk,
)
from ithaca.raft.node import Node


def on_append(node: Node, message: AppendEntries) -> None:
    node.hear_leader(message.sender)
    previous, entries = message.previous_index, message.entries
    if previous < node.commit_index:
        # Committed entries are the leader's too (leader completeness), and may be compacted here.
        entries = entries[node.commit_index - previous :]
        previous = node.commit_index
    elif not matches(node, message):
        _reject(node, message)
        return
    store(node, entries)
    agreed = previous + len(entries)
    node.commit(min(message.commit_index, agreed))
    node.send_durably(message.sender, AppendReply(node.id, node.term, accepted=True, index=agreed, round=message.round))


def matches(node: Node, message: AppendEntries) -> bool:
    """The consistency check that makes logs which agree somewhere agree everywhere before it (§5.3)."""
    return node.log.term_at(message.previous_index) == message.previous_term


def store(node: Node, entries: tuple[Entry, ...]) -> None:
    """Append what is new; cut only at a real contradiction, since appends may come late or twice (§5.3)."""
    for offset, entry in enumerate(entries):
        if entry.index > node.log.last_index:
            node.append(entries[offset:])
            return
        if node.log.term_at(entry.index) != entry.term:
            node.truncate(entry.index)
            node.append(entries[offset:])
            return


def on_snapshot(node: Node, message: InstallSnapshot) -> None:
    node.hear_leader(message.sender)
    _take_snapshot(node, message.snapshot, message.sender, message.round)


def on_chunk(node: Node, message: SnapshotChunk) -> None:
    node.hear_leader(message.sender)
    index, term = message.index, message.snapshot_term
    if node.log.term_at(index) == term or index <= node.commit_index:
        node.incoming = None
        _take_snapshot(
            node, Snapshot(index, term, message.configuration), message.sender, 0
        )  # nothing of it is missing
        return
    if node.offered is not None and (node.offered.index, node.offered.term) == (index, term):
        _take_snapshot(node, node.offered, message.sender, 0)  # all of it is here, but for what it refers to
        return
    if node.incoming is None or not node.incoming.is_of(message):
        node.incoming = IncomingSnapshot(message)
    snapshot = node.incoming.take(message)
    if snapshot is None:
        node.send(message.sender, ChunkReply(node.id, node.term, index, term, message.offset, node.incoming.held))
    else:
        node.incoming = None
        _take_snapshot(node, snapshot, message.sender, 0)


def _take_snapshot(node: Node, snapshot: Snapshot, leader: ServerId, answered_round: int) -> None:
    if node.log.term_at(snapshot.index) == snapshot.term:
        node.commit(snapshot.index)  # the log holds all of it: only the commitment is news
    elif snapshot.index > node.commit_index:
        if node.settings.fetches:
            node.drop_uncommitted()
            node.offered = snapshot
            node.persistence.later.append(FetchSnapshot(snapshot, leader))
            return
        node.install(snapshot)
    node.send_durably(
        leader, AppendReply(node.id, node.term, accepted=True, index=node.commit_index, round=answered_round)
    )


def on_fetched(node: Node, index: int, term: int) -> None:
    """What a snapshot refers to is here: install it, unless it is not wanted any more."""
    snapshot = node.offered
    if snapshot is None or (snapshot.index, snapshot.term) != (index, term):
        return
    node.offered = None
    if index <= node.commit_index or node.log.term_at(index) == term:
        return  # the entries came after all
    node.install(snapshot)
    if node.leader is not None and node.leader != node.id:
        node.send_durably(node.leader, AppendReply(node.id, node.term, accepted=True, index=index))


def _reject(node: Node, message: AppendEntries) -> None:
    hint = node.log.last_at_most(message.previous_index, message.previous_term)
    hint_term = node.log.term_at(hint)
    assert hint_term is not None, hint
    node.send_durably(
        message.sender,
        AppendReply(
            node.id,
            node.term,
            accepted=False,
            index=message.previous_index,
            hint_index=hint,
            hint_term=hint_term,
            round=message.round,
        ),
    )
