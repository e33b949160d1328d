"""What servers keep and say: entries, configurations, snapshots, messages. Frozen, tagged, msgpack-ready.

| message         | paper                      | direction            |
|-----------------|----------------------------|----------------------|
| RequestVote     | §5.2; thesis §9.6 with pre | candidate to voters  |
| VoteReply       | §5.2                       | back                 |
| AppendEntries   | §5.3, also the heartbeat   | leader to all        |
| InstallSnapshot | §7, in one piece           | leader to a laggard  |
| SnapshotChunk   | §7, a larger one in pieces | leader to a laggard  |
| ChunkReply      | §7, how much of it is there | back                |
| AppendReply     | §5.3, answers both         | back                 |
| TimeoutNow      | thesis §3.10               | leader to successor  |
"""

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import ProtocolError
from ithaca.model.view import Address

ServerId = int
"""Servers are numbered from 1; a number is never given to another server."""


class EntryKind(IntEnum):
    """What an entry's `data` is: the caller's bytes, nothing, or an encoded `Configuration`."""

    PAYLOAD = 0
    NOOP = 1
    CONFIGURATION = 2


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One place in the replicated log. Indexes start at 1 and are dense."""

    index: int
    term: int
    kind: EntryKind
    data: bytes


class Configuration(msgspec.Struct, frozen=True, array_like=True):
    """Who counts (voters) and who only listens (learners), each sorted; where they are, for the shell alone."""

    voters: tuple[ServerId, ...] = ()
    learners: tuple[ServerId, ...] = ()
    addresses: tuple[tuple[ServerId, Address], ...] = ()
    """Of the members, sorted by number, as far as they were told."""
    removed_last: ServerId = 0
    """The highest number of a server that was removed."""

    @property
    def members(self) -> tuple[ServerId, ...]:
        return self.voters + self.learners

    @property
    def last(self) -> ServerId:
        """The highest number that a member ever had."""
        return max(self.removed_last, *self.members, 0)

    def was_removed(self, server: ServerId) -> bool:
        """Whether it was a member once, if servers are added in the order of their numbers."""
        return server <= self.last and server not in self.members


class HardState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a server must never forget (§5.1, §5.2): its term, and whom it voted for in it."""

    term: int = 0
    vote: ServerId | None = None


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """The state machine after `index`, which stands for every entry up to there (§7)."""

    index: int = 0
    term: int = 0
    configuration: Configuration = Configuration()
    data: bytes = b""


class DurableState(msgspec.Struct, frozen=True):
    """All that a server keeps on its disk: what recovery finds, and what `RaftCore` starts from."""

    hard_state: HardState = HardState()
    snapshot: Snapshot = Snapshot()
    entries: tuple[Entry, ...] = ()


def first_state(*voters: ServerId, addresses: Mapping[ServerId, Address] | None = None) -> DurableState:
    """The state of a founding member, the same for each; a server that joins later starts with no voters."""
    configuration = Configuration(tuple(sorted(voters)), (), tuple(sorted((addresses or {}).items())))
    return DurableState(snapshot=Snapshot(configuration=configuration))


class Message(msgspec.Struct, frozen=True, tag=True):
    """Every message says who speaks, and in which term (§5.1)."""

    sender: ServerId
    term: int


class RequestVote(Message, frozen=True):
    """`pre`: would you vote for me in `term`? `forced`: the leader itself asked for this election."""

    last_index: int
    last_term: int
    pre: bool = False
    forced: bool = False


class VoteReply(Message, frozen=True):
    """`term` is the term asked about if granted, else the voter's own."""

    granted: bool
    pre: bool = False


class AppendEntries(Message, frozen=True):
    """`round` counts confirmations of leadership; the reply echoes it (read index, thesis §6.4)."""

    previous_index: int
    previous_term: int
    entries: tuple[Entry, ...]
    commit_index: int
    round: int = 0


class InstallSnapshot(Message, frozen=True):
    snapshot: Snapshot
    round: int = 0


class SnapshotChunk(Message, frozen=True):
    """Bytes of a snapshot from `offset` on; `size` is how many there are in all. The rest is as in `Snapshot`."""

    index: int
    snapshot_term: int
    configuration: Configuration
    size: int
    offset: int
    data: bytes


class ChunkReply(Message, frozen=True):
    """The chunk at `offset` has come, and of this snapshot the first `held` bytes are there. It promises nothing."""

    index: int
    snapshot_term: int
    offset: int
    held: int


class AppendReply(Message, frozen=True):
    """Accepted: the log equals the leader's up to `index`, durably. Else `index` is the `previous_index`
    that did not match, and the hint is the last place where the logs might agree (see `Log.last_at_most`).
    """

    accepted: bool
    index: int
    hint_index: int = 0
    hint_term: int = 0
    round: int = 0


class TimeoutNow(Message, frozen=True):
    """Start an election at once: you are the chosen successor."""


AnyMessage = (
    RequestVote | VoteReply | AppendEntries | InstallSnapshot | SnapshotChunk | ChunkReply | AppendReply | TimeoutNow
)

_configuration_decoder = msgspec.msgpack.Decoder(Configuration)


def configuration_entry(index: int, term: int, configuration: Configuration) -> Entry:
    return Entry(index, term, EntryKind.CONFIGURATION, msgspec.msgpack.encode(configuration))


def configuration_of(entry: Entry) -> Configuration:
    """What the entry carries; `ProtocolError` when that is no configuration."""
    assert entry.kind is EntryKind.CONFIGURATION
    try:
        return _configuration_decoder.decode(entry.data)
    except UNDECODABLE as error:
        raise ProtocolError(f"the configuration in entry {entry.index} cannot be decoded: {error}") from error
