"""How a follower takes the leader's entries and snapshots (figure 2, "Receiver implementation"; §5.3, §7).

Both functions are called with a message of the current term, whose sender is therefore the leader. Their
answers are promises, and wait for the disk.
"""

from ithaca.raft.messages import AppendEntries, AppendReply, Entry, InstallSnapshot
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
    for place, entry in enumerate(entries):
        if entry.index > node.log.last_index:
            node.append(entries[place:])
            return
        if node.log.term_at(entry.index) != entry.term:
            node.truncate(entry.index)
            node.append(entries[place:])
            return


def on_snapshot(node: Node, message: InstallSnapshot) -> None:
    node.hear_leader(message.sender)
    snapshot = message.snapshot
    if node.log.term_at(snapshot.index) == snapshot.term:
        node.commit(snapshot.index)  # the log holds all of it: only the commitment is news
    elif snapshot.index > node.commit_index:
        node.install(snapshot)
    node.send_durably(
        message.sender,
        AppendReply(node.id, node.term, accepted=True, index=node.commit_index, round=message.round),
    )


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
