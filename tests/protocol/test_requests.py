"""What clients ask for, and the entries that it leads to: one for one, and none of the leader's own."""

import pytest

from ithaca.engines.scalog.messages.requests import REQUESTS, entry_of, request_of
from ithaca.engines.scalog.ordering.entries import (
    TAGS,
    AddReplica,
    CloseLane,
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
)
from ithaca.engines.scalog.ordering.prepared.entries import (
    AbortParts,
    ExpireParts,
    ForgetWriter,
    ForgetWriters,
    OpenPart,
    Publish,
    RenewParts,
)
from ithaca.model.errors import InvalidInput
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.codec import known_types

LANE, OTHER, PART = LaneId(0, 0, 1), LaneId(0, 1, 1), LaneId(0, 0, 1 << 30)
AT = Address("127.0.0.1", 9)

ASKED: list[OrderingEntry] = [
    OpenSession("orders", LANE),
    MoveSession(1, 2, LANE, OTHER, carried=b"known"),
    ExpireSession(1, 2),
    TrimTo(7),
    OpenPart(LANE, bytes(16), 1_000_000),
    Publish("w", 3, "me", ((PART, bytes(16)),)),
    AbortParts(((PART, bytes(16)),)),
    RenewParts(((PART, bytes(16)),), 1_000_000),
    ForgetWriter("w", 3),
    RegisterShard(3, 0, False, ((0, AT),)),
    Finalize(3, 2, 9, may_be_last=False),
    RemoveReplica(3, 1, 0),
]


@pytest.mark.parametrize("entry", ASKED, ids=lambda entry: type(entry).__name__)
def test_a_request_leads_to_the_entry_that_is_meant(entry: OrderingEntry) -> None:
    assert entry_of(request_of(entry)) == entry


def test_every_request_is_a_message_and_leads_to_another_entry() -> None:
    assert {type(request_of(entry)) for entry in ASKED} == set(REQUESTS)
    assert set(REQUESTS) < set(known_types().values())
    assert len(REQUESTS) < len(TAGS)


@pytest.mark.parametrize(
    "entry",
    [
        *(
            OpenLane(0, 0, 1),
            CloseLane(LANE),
            DeclareLost(LANE, 0, 1),
            AddReplica(0, 1, 7, AT),
            ExpireParts((PART,), 1),
        ),
        *(NoteSessions(((1, 2),), 3), ExpireIdle(((1, 2),), 3, 4), ForgetWriters((("w", 3),), 4, 5)),
    ],
    ids=lambda entry: type(entry).__name__,
)
def test_what_only_a_leader_can_know_cannot_be_asked_for(entry: OrderingEntry) -> None:
    with pytest.raises(InvalidInput, match=type(entry).__name__):
        request_of(entry)


def test_a_move_takes_no_field_of_older_versions_along() -> None:
    assert entry_of(request_of(MoveSession(1, 2, LANE, OTHER, 5))) == MoveSession(1, 2, LANE, OTHER)
