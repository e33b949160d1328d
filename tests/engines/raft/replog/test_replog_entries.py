"""Entries as bytes, what they weigh, and whether batches are those of a range."""

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.raft.batches import batch_of

from ithaca.engines.raft.name import LANE
from ithaca.engines.raft.replog.entries import (
    ExpireSessions,
    Found,
    LogEntry,
    OpenSession,
    TrimLog,
    check_bytes,
    decode_entry,
    encode_entry,
    range_in,
    range_of,
    weigh,
)
from ithaca.model.errors import ProtocolError
from ithaca.model.positions import LaneId
from ithaca.model.view import ClusterConfiguration
from ithaca.raft.messages import Entry, EntryKind
from ithaca.wire.batch import Batch, lane_seed
from ithaca.wire.build import noops

SEED = lane_seed(LANE)


def placed(*counts: int, start: int = 5, seed: int = SEED) -> list[Batch]:
    batches, lsn = [], start
    for number, count in enumerate(counts):
        batches.append(batch_of(7, 1 + lsn, count, text=b"%d" % number).placed(lsn, seed))
        lsn += count
    return batches


@pytest.mark.parametrize(
    "entry",
    [
        Found(ClusterConfiguration(UUID(int=7), "raft")),
        OpenSession("importer"),
        ExpireSessions(((1, 2), (3, 1))),
        TrimLog(9),
        range_of(placed(1, 3, 2)),
    ],
)
def test_entries_come_back(entry: LogEntry) -> None:
    assert decode_entry(encode_entry(entry)) == entry


@given(st.binary(max_size=120))
def test_other_bytes_are_refused(data: bytes) -> None:
    try:
        entry = decode_entry(data)
    except ProtocolError:
        return
    assert decode_entry(encode_entry(entry)) == entry


@given(st.data())
def test_a_range_that_was_changed_is_refused_or_another(data: st.DataObject) -> None:
    good = encode_entry(range_of(placed(1, 3, 2)))
    at = data.draw(st.integers(0, len(good) - 1))
    changed = good[:at] + bytes((good[at] ^ data.draw(st.integers(1, 255)),)) + good[at + 1 :]
    with suppress(ProtocolError):
        assert decode_entry(changed) != decode_entry(good)


def test_a_range_weighs_what_its_batches_do() -> None:
    batches = placed(1, 3)
    data = encode_entry(range_of(batches))
    entry = Entry(1, 1, EntryKind.PAYLOAD, data)
    assert weigh(entry) - weigh(Entry(1, 1, EntryKind.PAYLOAD, b"x" * len(data))) == sum(
        batch.total_bytes for batch in batches
    )
    assert weigh(Entry(1, 1, EntryKind.NOOP, b"")) == 32


def test_only_ranges_are_ranges() -> None:
    assert range_in(Entry(1, 1, EntryKind.NOOP, b"")) is None
    assert range_in(Entry(1, 1, EntryKind.PAYLOAD, encode_entry(TrimLog(1)))) is None
    named = range_in(Entry(1, 1, EntryKind.PAYLOAD, encode_entry(range_of(placed(2, 1)))))
    assert named is not None
    assert (named.first_lsn, named.count, named.end_lsn) == (5, 3, 8)


def test_the_bytes_of_a_range_are_those_and_no_others() -> None:
    of = range_of(placed(1, 3, 2))
    check_bytes(of, placed(1, 3, 2), SEED)
    wrong: list[list[Batch]] = [
        placed(1, 3),
        placed(1, 2, 3),
        placed(1, 3, 2, start=6),
        placed(1, 3, 2, seed=lane_seed(LaneId(0, 0, 2))),
        [*placed(1, 3, 2)[:2], batch_of(7, 10, 2, text=b"other").placed(9, SEED)],
    ]
    for batches in wrong:
        with pytest.raises(ProtocolError):
            check_bytes(of, batches, SEED)


def test_no_ops_stand_for_what_was_trimmed() -> None:
    of, batches = range_of(placed(1, 3, 2)), placed(1, 3, 2)
    check_bytes(of, [noops(1, timestamp_us=0).placed(5, SEED), *batches[1:]], SEED)
    with pytest.raises(ProtocolError):
        check_bytes(of, [noops(4, timestamp_us=0).placed(5, SEED), batches[2]], SEED)
