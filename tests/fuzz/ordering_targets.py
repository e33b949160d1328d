"""What the ordering layer agrees on, as Raft carries and keeps it."""

from typing import Any

import msgspec
from tests.fuzz.target import NESTED, NO_TEXT, Target
from tests.ordering.building import Driver
from tests.ordering.test_ordering_entries import ENTRIES
from tests.protocol.test_codec import arrived

from ithaca.engines.scalog.messages.order import Applied
from ithaca.engines.scalog.ordering.entries import (
    CloseLane,
    DeclareLost,
    ExpireIdle,
    ExpireSession,
    Finalize,
    MoveSession,
    NoteSessions,
    OpenLane,
    OpenSession,
    TrimTo,
    decode_entry,
    encode_entry,
)
from ithaca.engines.scalog.ordering.outcomes import ConsumersTold, EngineOutcome, OrderedCut, UsersTold
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
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.errors import Corrupt, FormatTooNew, InvalidInput, ProtocolError
from ithaca.model.limits import PART_INCARNATION_MIN
from ithaca.model.parts import Part
from ithaca.model.positions import LaneId
from ithaca.raft.messages import Configuration, Entry, EntryKind, configuration_entry, configuration_of
from ithaca.sessions.carried import decode_carried, encode_carried


def _driven() -> tuple[bytes, ...]:
    """Snapshots of a state with something in every part of it."""
    driver = Driver()
    found = [driver.state.snapshot()]
    (a, b), (c, _) = driver.shard(1), driver.shard(2)
    driver.apply(OpenSession("loader", a))
    driver.cut({a: 5, c: 2}, time_us=9)
    driver.cut({b: 3}, time_us=11)
    found.append(driver.state.snapshot())
    driver.apply(OpenPart(b, bytes(16), 10_000_000, 12))
    driver.apply(OpenPart(c, bytes(15) + b"1", 10_000_000, 12))
    driver.apply(SealPart(c._replace(incarnation=PART_INCARNATION_MIN), bytes(15) + b"1", 4, 99))
    driver.apply(Publish("loader", 1, "", ((c._replace(incarnation=PART_INCARNATION_MIN), bytes(15) + b"1"),)))
    driver.apply(DeclareLost(a, 1, 3))
    driver.apply(OpenLane(1, 0, 2))
    driver.apply(Finalize(2, cuts=3))
    driver.apply(TrimTo(4))
    found.append(driver.state.snapshot())
    return tuple(found)


def _restored(data: bytes) -> OrderingState:
    """The state, after what every server asks of it at once."""
    state = OrderingState.restored(data)
    for shard in state.view.shards:
        assert state.summary(shard.shard) is not None
        state.cuts_since(shard.shard, 0)
    return state


def _applied(data: bytes) -> OrderingState:
    """Where an entry leads that a client proposed: every server can say so, and whoever comes later reads it."""
    entry = decode_entry(data)
    state = OrderingState.restored(_SNAPSHOTS[-1])
    outcomes = state.apply(state.index + 1, entry)
    unsaid = OrderedCut | ConsumersTold | UsersTold | EngineOutcome
    told = tuple(outcome for outcome in outcomes if not isinstance(outcome, unsaid))
    assert arrived(Applied(told)).message == Applied(told)
    assert _restored(state.snapshot()) == state
    return state


def _with_lengths(column: bytes) -> bytes:
    """A snapshot whose lanes have these lengths, which are not one for each."""
    version, fields = msgspec.msgpack.decode(_SNAPSHOTS[-1])
    fields[6][1] = column
    return _encoded([version, fields])


def _configuration(data: bytes) -> Configuration:
    return configuration_of(Entry(1, 1, EntryKind.CONFIGURATION, data))


_encoded = msgspec.msgpack.encode
_SNAPSHOTS = _driven()
_PROPOSED = (
    *ENTRIES,
    OpenSession("loader", LaneId(1, 1, 1)),
    OpenSession("another", LaneId(1, 1, 1)),
    MoveSession(1, 1, LaneId(1, 0, 1), LaneId(1, 1, 1), carried=encode_carried([(1, 2, 17, 1)])),
    ExpireSession(1, 1),
    NoteSessions(((1, 5),), 20),
    ExpireIdle(((1, 1),), 15, 20),
    OpenLane(1, 0, 3),
    CloseLane(LaneId(1, 1, 1)),
    Finalize(1, 2, 50),
    TrimTo(7),
    OpenPart(LaneId(1, 1, 1), bytes(15) + b"2", 10_000_000, 13),
    SealPart(LaneId(1, 1, PART_INCARNATION_MIN), bytes(16), 3, 99),
    RenewParts(((LaneId(1, 1, PART_INCARNATION_MIN), bytes(16)),), 10_000_000, 13),
    ForgetWriter("loader", 1),
    ForgetWriters((("loader", 1),), 15, 20),
    Publish("loader", 1, "", ()),
    Publish("loader", 2, "", ()),
    AbortParts(((LaneId(1, 1, PART_INCARNATION_MIN), bytes(16)),)),
    ExpireParts((LaneId(1, 1, PART_INCARNATION_MIN),), 1 << 40),
    DeclareLost(LaneId(1, 1, 1), 0, 2),
)
"""Among them one of each kind that changes the state of the last snapshot."""

TARGETS: tuple[Target[Any], ...] = (
    Target(
        "ordering-entry",
        decode_entry,
        (ProtocolError,),
        tuple(map(encode_entry, ENTRIES)),
        encode_entry,
        regressions=(NESTED, NO_TEXT),
    ),
    Target(
        "ordering-apply",
        _applied,
        (ProtocolError,),
        tuple(map(encode_entry, _PROPOSED)),
        # Numbers that a state can hold, and no snapshot.
        regressions=(_encoded(["finalize", 1, (1 << 64) - 1, 0]), _encoded(["open-lane", 1, 0, (1 << 64) - 1])),
    ),
    Target(
        "ordering-snapshot",
        _restored,
        (Corrupt, FormatTooNew),
        _SNAPSHOTS,
        OrderingState.snapshot,
        regressions=(NESTED, b"\x92\x01" + NO_TEXT, *map(_with_lengths, (b"1234567", b"12345678"))),
    ),
    Target(
        "prepared-part",
        Part.from_bytes,
        (InvalidInput,),
        (Part(LaneId(1, 0, PART_INCARNATION_MIN), 3, bytes(16)).to_bytes(),),
        Part.to_bytes,
        regressions=(NESTED, b""),
    ),
    Target(
        "session-carried",
        decode_carried,
        (ProtocolError,),
        (b"", encode_carried([]), encode_carried([(1, 2, 17, 0), (3, 1, 40, 3), (9, 8, 0, 3)])),
        encode_carried,
        regressions=(NESTED, _encoded([[(1 << 64) - 9, 8, 0]])),
    ),
    Target(
        "raft-configuration",
        _configuration,
        (ProtocolError,),
        tuple(configuration_entry(1, 1, each).data for each in (Configuration(), Configuration((1, 2, 3), (4,)))),
        lambda configuration: configuration_entry(1, 1, configuration).data,
        regressions=(NESTED, b""),
    ),
)
