"""What no server that follows the protocol would say here: such a message is not believed, and nothing follows from it.

The core's assertions say what must hold between servers that do follow it. This stands between them and the wire.
"""

from ithaca.model.errors import ProtocolError
from ithaca.model.limits import RAFT_MEMBERS_MAX, RAFT_NUMBER_MAX
from ithaca.raft.events import Role
from ithaca.raft.leader import LeaderTerm
from ithaca.raft.limits import (
    RAFT_APPEND_ENTRIES_MAX,
    RAFT_ENTRY_BYTES_MAX,
    RAFT_SNAPSHOT_BYTES_MAX,
    RAFT_TERM_LEAP_MAX,
)
from ithaca.raft.messages import (
    AnyMessage,
    AppendEntries,
    AppendReply,
    ChunkReply,
    Configuration,
    EntryKind,
    InstallSnapshot,
    RequestVote,
    Snapshot,
    SnapshotChunk,
    configuration_of,
)
from ithaca.raft.node import Node

_NUMBER_MAX = 1 << 62


def objection(node: Node, leadership: LeaderTerm | None, message: AnyMessage) -> str | None:
    """What is wrong with a message, as far as this server can tell; None for one that may be true."""
    if not 0 <= message.term < _NUMBER_MAX:
        return f"there is no term {message.term}"
    if message.term > node.term + RAFT_TERM_LEAP_MAX:
        return f"term {message.term} is too far ahead of term {node.term}"
    match message:
        case RequestVote():
            return _not_numbers(message.last_index, message.last_term)
        case AppendEntries():
            return _second_leader(node, message) or _not_entries(message)
        case InstallSnapshot():
            return _second_leader(node, message) or _no_snapshot(message.snapshot, message.term)
        case SnapshotChunk():
            return _second_leader(node, message) or _no_chunk(message)
        case ChunkReply():
            return _not_numbers(message.index, message.snapshot_term, message.offset, message.held)
        case AppendReply() if leadership is not None and message.term == node.term:
            return _not_sent(node, leadership, message)
    return None


def _second_leader(node: Node, message: AppendEntries | InstallSnapshot | SnapshotChunk) -> str | None:
    if node.role is Role.LEADER and message.term == node.term:
        return f"server {message.sender} speaks as the leader of term {node.term}, and this server is that"
    return None


def _not_entries(message: AppendEntries) -> str | None:
    if len(message.entries) > RAFT_APPEND_ENTRIES_MAX:
        return f"{len(message.entries)} entries come together, and {RAFT_APPEND_ENTRIES_MAX} is the most"
    index, term = message.previous_index, message.previous_term
    for entry in message.entries:
        if entry.index != index + 1 or not term <= entry.term <= message.term:
            return f"entry {entry.index} of term {entry.term} cannot follow entry {index} of term {term}"
        if len(entry.data) > RAFT_ENTRY_BYTES_MAX:
            return f"entry {entry.index} has {len(entry.data)} bytes, and {RAFT_ENTRY_BYTES_MAX} is the most"
        if entry.kind is EntryKind.CONFIGURATION:
            try:
                wrong = _no_group(configuration_of(entry))
            except ProtocolError as error:
                wrong = str(error)
            if wrong is not None:
                return wrong
        index, term = entry.index, entry.term
    return _not_numbers(message.previous_index, message.previous_term, message.commit_index, message.round, index)


def _no_snapshot(snapshot: Snapshot, term: int) -> str | None:
    if snapshot.term > term:
        return f"a snapshot of term {snapshot.term} cannot be of a leader of term {term}"
    if len(snapshot.data) > RAFT_SNAPSHOT_BYTES_MAX:
        return f"a snapshot has {len(snapshot.data)} bytes, and {RAFT_SNAPSHOT_BYTES_MAX} is the most"
    return _not_numbers(snapshot.index, snapshot.term) or _no_group(snapshot.configuration)


def _no_chunk(chunk: SnapshotChunk) -> str | None:
    if not 0 < chunk.size <= RAFT_SNAPSHOT_BYTES_MAX:
        return f"a snapshot has {chunk.size} bytes, and {RAFT_SNAPSHOT_BYTES_MAX} is the most"
    if not chunk.data or chunk.offset < 0 or chunk.offset + len(chunk.data) > chunk.size:
        return f"{len(chunk.data)} bytes at {chunk.offset} are no part of a snapshot of {chunk.size}"
    return _no_snapshot(Snapshot(chunk.index, chunk.snapshot_term, chunk.configuration), chunk.term)


def _not_sent(node: Node, leadership: LeaderTerm, message: AppendReply) -> str | None:
    if message.accepted and message.index > node.log.last_index:
        return f"entry {message.index} is accepted, and {node.log.last_index} is the last one"
    if message.round > leadership.reads.round:
        return f"round {message.round} is answered, and {leadership.reads.round} is the last one"
    return _not_numbers(message.index, message.hint_index, message.hint_term, message.round)


def _no_group(configuration: Configuration) -> str | None:
    members = configuration.members
    numbers = (*members, *(server for server, _ in configuration.addresses))
    if len(members) > RAFT_MEMBERS_MAX or len(set(members)) < len(members):
        return f"a group of the servers {members} cannot be: each counts once, and {RAFT_MEMBERS_MAX} is the most"
    if len(configuration.addresses) > RAFT_MEMBERS_MAX or not all(1 <= each <= RAFT_NUMBER_MAX for each in numbers):
        return f"a group of the servers {members} cannot be: numbers are 1 to {RAFT_NUMBER_MAX}"
    if not 0 <= configuration.removed_last <= RAFT_NUMBER_MAX:
        return f"server {configuration.removed_last} cannot have been removed: there never was one"
    return None


def _not_numbers(*values: int) -> str | None:
    wrong = [value for value in values if not 0 <= value < _NUMBER_MAX]
    return f"{wrong[0]} is no index, term or round" if wrong else None
