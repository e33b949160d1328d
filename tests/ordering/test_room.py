"""The state has a size, which is never below that of its snapshot, and what would not fit is refused."""

from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from tests.ordering.building import CONFIGURATION, Driver, shard_entry

from ithaca.consumers.table import ConsumerTable, PackedConsumers
from ithaca.engines.scalog.ordering import room, snapshot
from ithaca.engines.scalog.ordering.closed_lanes import ClosedLane, ClosedLanes
from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    CloseLane,
    Finalize,
    OpenLane,
    OpenSession,
    OrderingEntry,
    RegisterShard,
)
from ithaca.engines.scalog.ordering.outcomes import ExpiredSession, OrderedCut, Session, SessionOpened
from ithaca.engines.scalog.ordering.prepared.entries import OpenPart, Publish, SealPart
from ithaca.engines.scalog.ordering.prepared.outcomes import StagedPart
from ithaca.engines.scalog.ordering.shards import Grace
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model import limits
from ithaca.model.consumers import ConsumerPart, ConsumerState
from ithaca.model.errors import InvalidInput
from ithaca.model.parts import Published
from ithaca.model.positions import LaneId
from ithaca.model.security.users import (
    RIGHTS,
    USER_NAME_CHARS_MAX,
    USER_PREFIX_BYTES_MAX,
    USER_PREFIXES_MAX,
    USER_RATE_MAX,
    USER_TOKENS_MAX,
    USERS_MAX,
    Grant,
    TokenHash,
    User,
    UserLimits,
)
from ithaca.model.view import Address, Replica, Shard
from ithaca.raft.limits import RAFT_SNAPSHOT_BYTES_MAX
from ithaca.users.table import USER_BYTES, PackedUsers, UserTable

LAST_LANE = LaneId(limits.SHARD_NUMBER_MAX, limits.REPLICA_NUMBER_MAX, limits.INCARNATION_MAX)
WIDE = "\N{GRINNING FACE}"
LATE = (1 << 62) - 1


def lanes(count: int) -> Iterator[LaneId]:
    return (LAST_LANE._replace(incarnation=limits.INCARNATION_MAX - number) for number in range(count))


PREFIXES = (bytes(USER_PREFIX_BYTES_MAX),) * USER_PREFIXES_MAX
LARGEST_USER = User(
    "u" * USER_NAME_CHARS_MAX,
    Grant(
        RIGHTS, (bytes(USER_PREFIX_BYTES_MAX),) * USER_PREFIXES_MAX, (bytes(USER_PREFIX_BYTES_MAX),) * USER_PREFIXES_MAX
    ),
    (TokenHash(bytes(16), bytes(32)),) * USER_TOKENS_MAX,
    UserLimits(limits.CONNECTIONS_MAX, *(USER_RATE_MAX,) * 5),
)


def filled() -> OrderingState:
    """A state with every table at its limit, or large where only the state as a whole has one; all fields at theirs."""
    state = OrderingState()
    state.configuration = CONFIGURATION
    state.index = state.cut_number = state.tail = state.first = state.time_us = LATE
    state.lanes.closed = ClosedLanes({lane: ClosedLane(limits.LANE_RECORDS_MAX, LATE) for lane in lanes(50_000)})
    for number in range(1000):
        shard = limits.SHARD_NUMBER_MAX - number
        replicas = tuple(
            Replica(
                limits.REPLICA_NUMBER_MAX - each,
                Address(WIDE * limits.HOST_CHARACTERS_MAX, 65535),
                limits.BOOT_MAX,
                limits.INCARNATION_MAX,
                True,
            )
            for each in range(limits.SHARD_REPLICAS_MAX)
        )
        state.shards._put(Shard(shard, 14, True, replicas, limits.REPLICA_NUMBER_MAX, LATE, LATE, "finalizing", LATE))
        state.shards.graces[shard] = Grace(LATE, LATE)
    state.shards._reclaimed = set(range(100_000, 200_000))
    state.lanes._set(*(np.arange(0, 65_536, dtype=np.int64) for _ in range(4)))
    for producer_id in range(limits.ORDERING_SESSIONS_MAX):
        name = "s" * limits.SESSION_NAME_BYTES_MAX
        carried = bytes(limits.SESSION_CARRIED_BYTES_MAX)
        state.sessions._put(
            Session(LATE - producer_id, name, LATE, LAST_LANE, carried=carried, active_us=LATE, seen_seq=LATE)
        )
    for number, lane in enumerate(lanes(limits.PARTS_MAX)):
        token = number.to_bytes(limits.PART_TOKEN_BYTES, "little")
        state.parts._put(StagedPart(lane, token, LAST_LANE, (1 << 63) - 1, limits.LANE_RECORDS_MAX))
        state.parts._last[LAST_LANE.shard - number, LAST_LANE.replica] = limits.INCARNATION_MAX
    for number in range(limits.WRITERS_MAX):
        writer = f"{number:0{limits.WRITER_NAME_BYTES_MAX}}"
        state.parts.writers.note(Published(writer, limits.PUBLISH_KEY_MAX, writer, LATE, LATE), LATE)
    for lane in lanes(limits.ORDERING_LOST_RANGES_MAX):
        state.lost[lane] = ((limits.LANE_RECORDS_MAX - 2, limits.LANE_RECORDS_MAX),)
        state.unplaced[lane] = limits.LANE_RECORDS_MAX - 1
    consumers = []
    for number in range(limits.CONSUMERS_MAX):
        name = f"{number:0{limits.CONSUMER_NAME_BYTES_MAX}}"
        part = ConsumerPart(LATE, LATE, LATE)
        consumers.append(ConsumerState(name, LATE, LATE, LATE, (part,), True))
    state.consumers = ConsumerTable(PackedConsumers(LATE, LATE, consumers))
    runs = limits.ORDERING_RUNS_UNSYNCED_MAX // limits.ORDERING_CUTS_UNSYNCED_MAX
    for number in range(limits.ORDERING_CUTS_UNSYNCED_MAX):
        keys, counts = np.arange(runs, dtype=np.int64), np.ones(runs, np.int64)
        state.kept[number] = OrderedCut(LATE, LATE, LATE, keys, counts, counts, counts)
    state.users = UserTable(PackedUsers(1, [LARGEST_USER]))
    return state


def test_with_every_table_at_its_limit_the_size_covers_the_snapshot() -> None:
    state = filled()
    data = state.snapshot()
    assert len(data) <= state.size_bytes
    assert state.size_bytes < 2 * len(data), "the bound is of use"


def test_every_single_table_is_covered() -> None:
    full, empty = filled(), OrderingState()
    empty.configuration = CONFIGURATION
    base, base_bytes = len(empty.snapshot()), empty.size_bytes
    for table in ("lanes", "shards", "sessions", "parts", "lost", "unplaced", "kept", "consumers", "users"):
        state = OrderingState()
        state.configuration = CONFIGURATION
        setattr(state, table, getattr(full, table))
        assert len(state.snapshot()) - base <= state.size_bytes - base_bytes, table


def test_the_tables_with_limits_of_their_own_leave_room() -> None:
    bounded = (
        room.SESSION_BYTES * limits.ORDERING_SESSIONS_MAX
        + (room.PART_BYTES + room.LAST_PART_BYTES) * limits.PARTS_MAX
        + room.WRITER_BYTES * limits.WRITERS_MAX
        + USER_BYTES * USERS_MAX
        + (room.LOST_LANE_BYTES + room.LOST_RANGE_BYTES + room.UNPLACED_LANE_BYTES) * limits.ORDERING_LOST_RANGES_MAX
        + room.KEPT_RUN_BYTES * (limits.ORDERING_RUNS_UNSYNCED_MAX + limits.ORDERING_REPLICAS_MAX)
        + room.KEPT_CUT_BYTES * limits.ORDERING_CUTS_UNSYNCED_MAX
        + limits.ORDERING_VIEW_BYTES_MAX
    )
    assert bounded < limits.ORDERING_STATE_BYTES_MAX // 2
    never_refused = room.WRITER_BYTES * limits.WRITERS_MAX + room.KEPT_RUN_BYTES * limits.ORDERING_RUNS_UNSYNCED_MAX
    most = limits.ORDERING_STATE_BYTES_MAX + limits.ORDERING_STATE_RESERVE_BYTES + 2 * never_refused
    assert most <= RAFT_SNAPSHOT_BYTES_MAX
    assert limits.ORDERING_VIEW_BYTES_MAX < limits.FRAME_BYTES_MAX


def test_pieces_are_one_array_whatever_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    state = filled()
    whole = state.snapshot()
    version, body = msgspec.msgpack.decode(whole, type=tuple[int, msgspec.Raw])
    assert (version, bytes(body)) == (snapshot.VERSION, msgspec.msgpack.encode(snapshot.decode_snapshot(whole)))
    monkeypatch.setattr(snapshot, "SNAPSHOT_PIECE_ITEMS", 7)
    pieces = list(state.snapshot_pieces())
    assert b"".join(pieces) == whole
    assert max(map(len, pieces)) < 1 << 20


def test_a_snapshot_is_of_the_moment_in_which_it_was_asked_for() -> None:
    driver = Driver()
    [lane, _] = driver.shard(1)
    before, pieces = driver.state.snapshot(), driver.state.snapshot_pieces()
    driver.apply(OpenSession("later", lane))
    driver.cut({lane: 9})
    driver.apply(CloseLane(lane))
    assert b"".join(pieces) == before


GROWING: list[OrderingEntry] = [
    OpenSession("new", LaneId(1, 0, 1)),
    OpenPart(LaneId(1, 0, 1), bytes(16), 1_000_000),
    shard_entry(2),
]


@pytest.mark.parametrize("entry", GROWING, ids=lambda entry: type(entry).__name__)
def test_a_full_state_refuses_who_wants_more(entry: OrderingEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    driver.shard(1)
    before = driver.state.size_bytes
    driver.apply(entry)
    added = driver.state.size_bytes - before
    assert added > 0
    driver = Driver()
    driver.shard(1)
    monkeypatch.setattr(room, "ORDERING_STATE_BYTES_MAX", before + added - 1)
    assert driver.reason(entry) == "the state is full"
    assert driver.state.size_bytes == before


def test_plain_appends_make_room_for_each_other_when_the_state_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    lane, _ = driver.shard(1)
    monkeypatch.setattr(room, "ORDERING_STATE_BYTES_MAX", 0)
    assert [type(each) for each in driver.apply(OpenSession("~a", lane, 1))] == [SessionOpened]
    assert [type(each) for each in driver.apply(OpenSession("~b", lane, 2))] == [ExpiredSession, SessionOpened]
    assert driver.reason(OpenSession("named", lane, 2)) == "the state is full"


def test_what_is_there_goes_on_when_the_state_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    a, b = driver.shard(1)
    driver.apply(OpenSession("s", a))
    driver.apply(OpenPart(a, bytes(16), 1_000_000))
    [part] = driver.state.parts.by_lane
    monkeypatch.setattr(room, "ORDERING_STATE_BYTES_MAX", 0)
    again: list[OrderingEntry] = [
        OpenSession("s", a),
        OpenPart(a, bytes(16), 1_000_000),
        SealPart(part, bytes(16), 3, driver.state.shards.version),
        Publish("w", 1, "", ((part, bytes(16)),)),
        driver.cut_entry({a: 5, b: 2}),
        OpenLane(1, 0, 2),
        CloseLane(b),
        shard_entry(1),
        Finalize(1),
    ]
    for entry in again:
        assert driver.reason(entry) is None, entry
    monkeypatch.setattr(room, "ORDERING_STATE_RESERVE_BYTES", 0)
    late = Driver()
    late.apply(shard_entry(1))
    assert late.reason(OpenLane(1, 0, 1)) == "the state is full"


def test_the_view_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    driver.shard(1)
    monkeypatch.setattr(room, "ORDERING_VIEW_BYTES_MAX", driver.state.shards.view_bytes)
    assert driver.reason(shard_entry(2)) == "the state is full"
    assert driver.reason(AddReplica(1, 1, 7, Address("127.0.0.1", 1))) == "the state is full"


def test_the_size_of_the_view_follows_it() -> None:
    driver = Driver()
    for shard in (1, 2, 3):
        driver.shard(shard)
    driver.apply(Finalize(2))
    restored = OrderingState.restored(driver.state.snapshot())
    assert restored.size_bytes == driver.state.size_bytes
    assert restored.shards.view_bytes == driver.state.shards.view_bytes > 0


def test_a_host_has_a_length() -> None:
    longest = Address("h" * limits.HOST_CHARACTERS_MAX, 1)
    with pytest.raises(InvalidInput, match="256 characters"):
        Address(longest.host + "h", 1)
    data = msgspec.msgpack.encode(["h" * 2_000_000, 1])
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(data, type=Address)
    with pytest.raises(InvalidInput):
        RegisterShard(1, 0, False, ((0, Address("h" * 300, 1)),))
