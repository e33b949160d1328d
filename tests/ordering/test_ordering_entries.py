"""Entries travel as msgpack arrays and come back equal; what is unknown or malformed is refused by name."""

from uuid import UUID

import msgspec
import pytest
from tests.ordering.building import address, shard_entry

from ithaca.consumers.table import ConsumerChanges
from ithaca.engines.scalog.ordering.entries import (
    TAGS,
    AddReplica,
    CloseLane,
    Configure,
    Cut,
    DeclareLost,
    ExpireIdle,
    ExpireSession,
    Finalize,
    MoveSession,
    NoteSessions,
    OpenLane,
    OpenSession,
    OrderingEntry,
    RegisterShard,
    RemoveReplica,
    TrimTo,
    cut,
    decode_entry,
    encode_entry,
)
from ithaca.engines.scalog.ordering.prepared.entries import (
    AbortParts,
    ExpireParts,
    ForgetWriter,
    ForgetWriters,
    OpenPart,
    Publish,
    RenewParts,
    SealPart,
)
from ithaca.model.consumers import OpenConsumer
from ithaca.model.cut import LaneLengths
from ithaca.model.errors import InvalidInput, ProtocolError, VersionMismatch
from ithaca.model.limits import (
    ENGINE_NAME_CHARS_MAX,
    LANE_RECORDS_MAX,
    PART_INCARNATION_MIN,
    SESSION_CARRIED_BYTES_MAX,
    SESSION_NAME_BYTES_MAX,
    WRITER_NAME_BYTES_MAX,
)
from ithaca.model.positions import LaneId
from ithaca.model.security.users import RevokeUser
from ithaca.model.view import ClusterConfiguration
from ithaca.users.table import UserChanges

LANE, OTHER = LaneId(1, 2, 3), LaneId(2, 0, 1)
LOG = UUID(int=5)
PART, TOKEN = LaneId(1, 2, PART_INCARNATION_MIN + 3), bytes(range(16))

ENTRIES: list[OrderingEntry] = [
    Configure(ClusterConfiguration(LOG, "scalog", 500, 8)),
    shard_entry(1, f=1, masking=True),
    OpenLane(1, 2, 3),
    CloseLane(LANE),
    cut(LaneLengths.of({LANE: 5, OTHER: 7}), time_us=11, view=3, forget=(1, 2)),
    Finalize(1, 5, 99),
    RemoveReplica(1, 1, 2),
    AddReplica(1, 2, 3, address(3)),
    TrimTo(9),
    OpenPart(LANE, TOKEN, 3_600_000_000, 5),
    RenewParts(((PART, TOKEN),), 3_600_000_000, 5),
    SealPart(PART, TOKEN, 12, 3),
    Publish("loader", 7, "query", ((PART, TOKEN),), 5),
    AbortParts(((PART, TOKEN),)),
    ExpireParts((PART,), 9),
    ForgetWriter("loader", 7),
    ForgetWriters((("loader", 7), ("copier", 1)), 3, 9),
    OpenSession("käse", LANE),
    MoveSession(1, 2, LANE, OTHER, 4, b"\0\xff"),
    MoveSession(1, 2, LANE, OTHER),
    ExpireSession(1, 2),
    NoteSessions(((1, 7), (2, 1)), 9),
    ExpireIdle(((1, 2),), 3, 9),
    DeclareLost(LANE, 3, 5),
    ConsumerChanges((OpenConsumer("billing", 5, 7),), 9),
    UserChanges((RevokeUser("alice"),)),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_round_trip(entry: OrderingEntry) -> None:
    data = encode_entry(entry)
    assert decode_entry(data) == entry
    assert msgspec.msgpack.decode(data)[0] in TAGS


def test_every_kind_is_covered() -> None:
    assert {msgspec.msgpack.decode(encode_entry(entry))[0] for entry in ENTRIES} == TAGS


def test_a_cut_costs_sixteen_bytes_per_lane() -> None:
    sizes = [
        len(encode_entry(cut(LaneLengths.of({LaneId(1, 0, n): 1 << 40 for n in range(1, count)}), time_us=1, view=1)))
        for count in (2, 12)
    ]
    assert sizes[1] - sizes[0] == 160


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(VersionMismatch, match="kind 'unpublish' is not known to this version"):
        decode_entry(msgspec.msgpack.encode(["unpublish", 1]))


PACKED = b"\1" + b"\0" * 7
"""A vector with one element, 1."""
MALFORMED: dict[str, object] = {
    "not an array": {"cut": 1},
    "no tag": [],
    "too few fields": ["open-lane", 1],
    "a negative shard": ["open-lane", -1, 0, 1],
    "boot zero": ["open-lane", 1, 0, 0],
    "an impossible lane": ["close-lane", [1, 2, 0]],
    "half an element": ["cut", PACKED[:-1], PACKED, 0, 0, []],
    "lanes without lengths": ["cut", PACKED, b"", 0, 0, []],
    "lanes twice": ["cut", PACKED * 2, PACKED * 2, 0, 0, []],
    "a negative length": ["cut", PACKED, b"\xff" * 8, 0, 0, []],
    "a length beyond bounds": ["cut", PACKED, (LANE_RECORDS_MAX + 1).to_bytes(8, "little"), 0, 0, []],
    "a view beyond bounds": ["cut", b"", b"", 0, 1 << 63, []],
    "too few replicas": ["register-shard", 1, 1, False, [[0, ["h", 1]]]],
    "replicas out of order": ["register-shard", 1, 1, False, [[1, ["h", 1]], [0, ["h", 1]]]],
    "too many replicas": ["register-shard", 1, 20, False, [[n, ["h", 1]] for n in range(21)]],
    "no session name": ["open-session", "", [1, 2, 3]],
    "a long session name": ["open-session", "x" * (SESSION_NAME_BYTES_MAX + 1), [1, 2, 3]],
    "too much carried": ["move-session", 1, 1, [1, 2, 3], [1, 2, 4], None, b"x" * (SESSION_CARRIED_BYTES_MAX + 1)],
    "a part of a part": ["open-part", list(PART), TOKEN, 3_600_000_000],
    "a short token": ["open-part", [1, 2, 3], TOKEN[:-1], 3_600_000_000],
    "a part for ever": ["open-part", [1, 2, 3], TOKEN, 1 << 60],
    "no part to seal": ["seal-part", [1, 2, 3], TOKEN, 1, 1],
    "a long writer": ["publish", "x" * 256, 1, "", []],
    "a negative key": ["publish", "w", -1, "", []],
    "a long owner": ["publish", "w", 1, "x" * 256, []],
    "a part twice": ["publish", "w", 1, "", [[list(PART), TOKEN], [list(PART), TOKEN]]],
    "no part to abort": ["abort-parts", [[[1, 2, 3], TOKEN]]],
    "nothing lost": ["lost", [1, 2, 3], 4, 4],
    "an engine without a name": ["configure", [str(LOG), "", 0, 4]],
    "an engine of too long a name": ["configure", [str(LOG), "x" * (ENGINE_NAME_CHARS_MAX + 1), 0, 4]],
    "no pipeline": ["configure", [str(LOG), "scalog", 0, 0]],
    "a negative interval": ["configure", [str(LOG), "scalog", -1, 4]],
}


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_entries_are_refused(what: str) -> None:
    with pytest.raises(ProtocolError, match="cannot be decoded"):
        decode_entry(msgspec.msgpack.encode(MALFORMED[what]))


LONGEST_NAME = "x" * WRITER_NAME_BYTES_MAX
AT_THE_LIMIT: dict[str, object] = {
    "the longest length": ["cut", PACKED, LANE_RECORDS_MAX.to_bytes(8, "little"), 0, 0, []],
    "the longest session name": ["open-session", "x" * SESSION_NAME_BYTES_MAX, [1, 2, 3]],
    "as much carried": ["move-session", 1, 1, [1, 2, 3], [1, 2, 4], None, b"x" * SESSION_CARRIED_BYTES_MAX],
    "the longest writer and owner": ["publish", LONGEST_NAME, 1, LONGEST_NAME, []],
    "the shortest writer": ["publish", "w", 0, "", []],
    "one record lost": ["lost", [1, 2, 3], 4, 5],
}


@pytest.mark.parametrize("what", AT_THE_LIMIT)
def test_what_is_just_allowed_is_taken(what: str) -> None:
    data = msgspec.msgpack.encode(AT_THE_LIMIT[what])
    assert encode_entry(decode_entry(data))


def test_truncated_bytes_are_refused() -> None:
    for entry in ENTRIES:
        data = encode_entry(entry)
        for length in range(len(data)):
            with pytest.raises(ProtocolError):
                decode_entry(data[:length])


def test_our_own_mistakes_are_found_when_an_entry_is_made() -> None:
    with pytest.raises(InvalidInput, match="f=1 without masking needs 2"):
        RegisterShard(1, 1, False, ((0, address(0)),))
    with pytest.raises(InvalidInput, match="not in order"):
        Cut(PACKED * 2, PACKED * 2)
