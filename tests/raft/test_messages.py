"""Messages travel as msgpack, tagged, and come back equal."""

import msgspec
import pytest

from ithaca.raft.messages import (
    AnyMessage,
    AppendEntries,
    AppendReply,
    ChunkReply,
    Configuration,
    Entry,
    EntryKind,
    InstallSnapshot,
    RequestVote,
    Snapshot,
    SnapshotChunk,
    TimeoutNow,
    VoteReply,
    configuration_entry,
    configuration_of,
)

MESSAGES: list[AnyMessage] = [
    RequestVote(1, 2, 3, 4, pre=True, forced=True),
    VoteReply(1, 2, granted=True),
    AppendEntries(1, 2, 3, 4, (Entry(4, 2, EntryKind.PAYLOAD, b"\0\xff"),), 5, 6),
    AppendReply(1, 2, accepted=False, index=3, hint_index=2, hint_term=1, round=9),
    InstallSnapshot(1, 2, Snapshot(3, 2, Configuration((1, 2), (3,)), b"state"), 4),
    SnapshotChunk(1, 2, 3, 2, Configuration((1, 2), (3,)), 9, 4, b"state"),
    ChunkReply(1, 2, 3, 2, 4, 9),
    TimeoutNow(1, 2),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_round_trip(message: AnyMessage) -> None:
    data = msgspec.msgpack.encode(message)
    assert msgspec.msgpack.decode(data, type=AnyMessage) == message
    assert msgspec.msgpack.decode(data)["type"] == type(message).__name__


def test_a_configuration_entry_carries_its_configuration() -> None:
    configuration = Configuration((1, 2, 3), (4,))
    assert configuration_of(configuration_entry(1, 1, configuration)) == configuration
