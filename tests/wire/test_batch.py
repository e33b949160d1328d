"""The batch format: round trips, golden bytes, and no damage or malice that gets through."""

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.batches import Row, compressions, data_of, resealed, rows_of, rows_with_keys, values

from ithaca.client.appending.outgoing import numbered
from ithaca.model.errors import (
    BatchTooLarge,
    Corrupt,
    FormatTooNew,
    InvalidInput,
    RecordTooLarge,
    UnknownCompression,
)
from ithaca.model.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, MIB, PIECE_BYTES_MIN, RECORD_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.model.records import Buffer, Compression, Record
from ithaca.wire import batch as batches
from ithaca.wire import build as building
from ithaca.wire.batch import HEAD_BYTES, Batch

STAMP = 1_700_000_000_000_000
LANE = LaneId(0, 0, 1)
SEED = batches.lane_seed(LANE)
PLACE = range(48, 60)  # base_lsn and head_crc: the accepting replica's, outside the producer's checksum

GOLDEN = bytes.fromhex(
    "49544841 a1f19939 01 01 0400 02000000 38000000 01000000 0700000000000000 0300000000000000"
    "00401e18240a0600 2900000000000000 cb0473d9 38000000"
    "00000000 05000000 05000000 00000000 68656c6c6f000000"
    "0100000000000000 00000000 06000000 06000000 00000000 757365722d370000"
)


def golden() -> Batch:
    batch = building.build([b"hello", b""], [b"user-7", None], timestamp_us=STAMP, producer=(7, 1, 3))
    return batch.placed(41, SEED)


def build_rows(rows: list[Row], compress: Compression = "none") -> Batch:
    return building.build([value for value, _ in rows], [key for _, key in rows], timestamp_us=STAMP, compress=compress)


def read_all(data: Buffer) -> list[Record]:
    """Everything a reader does with bytes from outside."""
    batch = batches.parse(data)
    if batch.kind != batches.DATA:
        batch.control_body()
        return []
    batch.to_arrow(np.arange(batch.count, dtype=np.int64), 0).validate(full=True)
    if batch.has_keys:
        batch.columns().key_vectors()
    return batch.records(1, 0)


@pytest.mark.parametrize("keys", [None, [b"k", None, b"kk"]])
def test_large_values_stay_where_they_are(keys: list[bytes | None] | None) -> None:
    """What is sent and stored is the same as of values that are copied, before and after somebody looks at the body."""
    values: list[Buffer] = [bytes([each]) * (PIECE_BYTES_MIN + each) for each in range(3)]
    large = building.build(values, keys, timestamp_us=STAMP)
    copied = building.build([bytearray(each) for each in values], keys, timestamp_us=STAMP)
    assert all(any(buffer is value for buffer in large.buffers()) for value in values)
    assert len(copied.buffers()) == 2
    again = numbered(large, (7, 1, 3))
    assert any(buffer is values[1] for buffer in again.buffers())
    for batch, producer in ((large, (0, 0, 0)), (again, (7, 1, 3))):
        assert data_of(batch) == data_of(numbered(copied, producer))
        parsed = batches.parse(data_of(batch))
        assert rows_of(parsed.records(1, 0)) == rows_of(batch.records(1, 0))
        assert bytes(batch.body) == bytes(parsed.body)


def test_a_large_value_that_can_change_is_copied() -> None:
    value = bytearray(PIECE_BYTES_MIN)
    batch = building.build([value, memoryview(value)], timestamp_us=STAMP)
    before = data_of(batch)
    value[:] = b"x" * len(value)
    assert data_of(batch) == before


def test_golden_bytes() -> None:
    assert data_of(golden()) == GOLDEN
    batch = batches.parse(GOLDEN)
    assert batch.belongs_to(SEED)
    assert (batch.base_lsn, batch.end_lsn, batch.count) == (41, 43, 2)
    assert (batch.producer_id, batch.producer_epoch, batch.first_seq) == (7, 1, 3)
    assert batch.records(42, 0) == [
        Record(position=42, value=b"hello", key=b"user-7", timestamp_us=STAMP, shard=0),
        Record(position=43, value=b"", key=None, timestamp_us=STAMP, shard=0),
    ]


def test_the_checksum_is_crc32c() -> None:
    assert google_crc32c.value(b"123456789") == batches.crc32c(b"123456789") == 0xE3069283


@given(rows=rows_with_keys, compress=compressions, before=st.integers(0, 3), mutable=st.booleans())
@settings(max_examples=100, deadline=None)
def test_round_trip_with_keys(rows: list[Row], compress: Compression, before: int, mutable: bool) -> None:
    built = build_rows(rows, compress)
    data: Buffer = bytes(8 * before) + data_of(built) + b"behind"
    parsed = batches.parse(memoryview(bytearray(data)) if mutable else data, 8 * before)
    for batch in (built, parsed):
        assert batch.total_bytes == len(data_of(built))
        assert rows_of(batch.records(1, 0)) == rows
        assert [record.position for record in batch.records(7, 0)] == list(range(7, 7 + len(rows)))


@given(values=st.lists(values, min_size=1, max_size=20), compress=compressions)
@settings(max_examples=100, deadline=None)
def test_round_trip_without_keys(values: list[bytes], compress: Compression) -> None:
    batch = batches.parse(data_of(building.build(values, timestamp_us=-5, compress=compress)))
    assert not batch.has_keys
    assert batch.records(1, 3) == [
        Record(position=place, value=value, key=None, timestamp_us=-5, shard=3) for place, value in enumerate(values, 1)
    ]
    assert [batch.record(1, 3, row) for row in range(len(values))] == batch.records(1, 3)


@given(
    rows=rows_with_keys,
    compress=compressions,
    low=st.integers(0, 20),
    high=st.integers(0, 20),
)
@settings(max_examples=100, deadline=None)
def test_slices(rows: list[Row], compress: Compression, low: int, high: int) -> None:
    low, high = sorted((low % (len(rows) + 1), high % (len(rows) + 1)))
    batch = batches.parse(data_of(build_rows(rows, compress)))
    everything = batch.records(11, 0)
    assert batch.records(11, 0, low, high) == everything[low:high]
    assert [batch.record(11, 0, row) for row in range(len(rows))] == everything


def test_buffers_of_all_kinds() -> None:
    wide = memoryview(bytes(range(12))).cast("I")
    inputs: list[Buffer] = [b"a", bytearray(b"b"), memoryview(b"cd"), memoryview(b"efgh")[::2], wide]
    expected = [b"a", b"b", b"cd", b"eg", bytes(wide)]
    batch = building.build(inputs, list(inputs), timestamp_us=0)
    assert rows_of(batch.records(1, 0)) == list(zip(expected, expected, strict=True))


@pytest.mark.parametrize("compress", ["none", "lz4", "zstd"])
def test_every_flipped_bit_is_found(compress: Compression) -> None:
    rows: list[Row] = [(b"value " * 8, b"key"), (b"", None), (b"value " * 8, b"")]
    data = bytearray(data_of(build_rows(rows, compress).placed(41, SEED)))
    assert bool(batches.parse(data).flags & 3) == (compress != "none")
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        if bit // 8 in PLACE:
            assert not batches.parse(bytes(data)).belongs_to(SEED)
        else:
            with pytest.raises(Corrupt):
                batches.parse(bytes(data))
        data[bit // 8] ^= 1 << bit % 8
    assert rows_of(batches.parse(data).records(1, 0)) == rows


@pytest.mark.parametrize("compress", ["none", "lz4", "zstd"])
def test_every_truncation_is_found(compress: Compression) -> None:
    data = data_of(build_rows([(b"value " * 8, b"key"), (b"", None)], compress))
    for end in range(len(data)):
        with pytest.raises(Corrupt):
            batches.parse(data[:end])
        with pytest.raises(Corrupt):
            batches.parse(memoryview(data)[:end])


def test_a_batch_belongs_to_one_place_of_one_lane() -> None:
    batch = golden()
    for other in (LaneId(1, 0, 1), LaneId(0, 1, 1), LaneId(0, 0, 2)):
        assert not batch.belongs_to(batches.lane_seed(other))
    before = data_of(batch)
    assert data_of(batch.placed(42, SEED)) != before
    unplaced = building.build([b"hello"], timestamp_us=0)
    assert not unplaced.belongs_to(SEED)
    assert unplaced.placed(9, SEED).belongs_to(SEED)


@given(garbage=st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_garbage_is_corrupt(garbage: bytes) -> None:
    for data in (garbage, GOLDEN[:4] + garbage, GOLDEN[:HEAD_BYTES] + garbage):
        if data[: len(GOLDEN)] != GOLDEN:
            with pytest.raises(Corrupt):
                batches.parse(data)


words = st.sampled_from([0, 1, 2, 3, 7, 8, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]) | st.integers(0, 2**32 - 1)


@given(
    rows=rows_with_keys,
    compress=compressions,
    forgeries=st.lists(st.tuples(st.integers(0, 2000), words, st.sampled_from([1, 2, 4])), min_size=1, max_size=4),
)
@settings(max_examples=400, deadline=None)
def test_forgeries_with_a_right_checksum_raise_typed_errors_or_give_records(
    rows: list[Row], compress: Compression, forgeries: list[tuple[int, int, int]]
) -> None:
    """A producer that means harm computes checksums too: any field, any offset, any compressed byte."""
    forged = bytearray(data_of(build_rows(rows, compress)))
    for place, word, width in forgeries:
        at = 8 + place % (len(forged) - 8)
        part = word.to_bytes(4, "little")[:width]
        forged[at : at + width] = part[: len(forged) - at]
    try:
        records = read_all(resealed(forged))
    except (Corrupt, FormatTooNew, UnknownCompression):
        return
    assert all(isinstance(record.value, bytes) for record in records)


@given(
    values=st.lists(values, min_size=1, max_size=20),
    before=st.integers(0, 3),
    row=st.integers(0, 19),
    end=st.integers(0, 1),
    word=words,
)
@settings(max_examples=200, deadline=None)
def test_one_record_never_reaches_beyond_its_batch(
    values: list[bytes], before: int, row: int, end: int, word: int
) -> None:
    row %= len(values)
    forged = bytearray(data_of(building.build(values, timestamp_us=5)))
    at = HEAD_BYTES + 4 * (row + end)
    low, high = (int.from_bytes(forged[HEAD_BYTES + 4 * each :][:4], "little") for each in (row, row + 1))
    forged[at : at + 4] = word.to_bytes(4, "little")
    batch = batches.parse(bytes(8 * before) + resealed(forged) + b"behind that", 8 * before)
    low, high = (low, word) if end else (word, high)
    values_bytes = batch.body_bytes - batches.padded(4 * (len(values) + 1))
    if 0 <= low <= high <= values_bytes:
        assert len(batch.record(1, 0, row).value) == high - low
    else:
        with pytest.raises(Corrupt, match="offsets"):
            batch.record(1, 0, row)


def forge(at: int, word: int, width: int = 4) -> bytes:
    forged = bytearray(GOLDEN)
    forged[at : at + width] = word.to_bytes(width, "little")
    return resealed(forged)


@pytest.mark.parametrize(
    ("at", "word", "width"),
    [
        (9, 0, 1),  # kinds that there are not
        (9, 6, 1),
        (9, 2, 1),  # no-ops with a body
        (9, 3, 1),  # bookkeeping that counts records
        (12, 0, 4),  # counts that do not fit
        (12, 3, 4),
        (12, 0xFFFFFFFF, 4),
        (60, 48, 4),  # other bytes than are stored
        (60, BATCH_BYTES_MAX + 8, 4),
        (10, 5, 2),  # compressed, it says
        (10, 6, 2),
        (64, 1, 4),  # value offsets: not from 0, falling, outside
        (68, 6, 4),
        (72, 4, 4),
        (72, 0xFFFFFFFF, 4),
        (72, 9, 4),
        (96, 1, 4),  # key offsets, the same
        (100, 7, 4),
        (104, 0x7FFFFFFF, 4),
        (104, 17, 4),
    ],
)
def test_what_is_not_well_formed_is_corrupt(at: int, word: int, width: int) -> None:
    with pytest.raises(Corrupt):
        read_all(forge(at, word, width))


def test_unknown_versions_and_compressions_are_refused_by_name() -> None:
    with pytest.raises(FormatTooNew, match="version 2") as caught:
        batches.parse(forge(8, 2, 1))
    assert (caught.value.found, caught.value.supported) == (2, 1)
    with pytest.raises(UnknownCompression, match="flag 3"):
        batches.parse(forge(10, 7, 2)).records(1, 0)


@pytest.mark.parametrize("compress", ["lz4", "zstd"])
def test_bodies_are_compressed_if_that_makes_them_smaller(compress: Compression) -> None:
    compact = building.build([b"again " * 1000], timestamp_us=0, compress=compress)
    assert compact.body_bytes < 200 < compact.raw_bytes
    tiny = building.build([b"x"], timestamp_us=0, compress=compress)
    assert tiny.body_bytes == tiny.raw_bytes


@pytest.mark.parametrize("kind", [batches.CONTROL, batches.MARK, batches.SNAPSHOT])
@pytest.mark.parametrize("body", [b"", b"x", b"12345678"])
def test_bookkeeping_round_trip(kind: int, body: bytes) -> None:
    batch = batches.parse(data_of(building.bookkeeping(kind, body, timestamp_us=5)))
    assert (batch.kind, batch.count, batch.control_body(), batch.timestamp_us) == (kind, 0, body, 5)
    assert batch.total_bytes % 8 == 0


def test_noops_have_no_record() -> None:
    with pytest.raises(Corrupt, match="offsets"):
        batches.parse(data_of(building.noops(3, timestamp_us=5))).record(1, 0, 0)


def test_noops_have_no_body() -> None:
    batch = batches.parse(memoryview(data_of(building.noops(1 << 30, timestamp_us=5))))
    assert (batch.kind, batch.count, batch.total_bytes) == (batches.NOOPS, 1 << 30, HEAD_BYTES)


def test_stored_bytes() -> None:
    assert batches.stored_bytes(b"xxxxxxxx" + GOLDEN, 8) == len(GOLDEN)
    assert batches.stored_bytes(GOLDEN[:HEAD_BYTES], 0) == len(GOLDEN)
    assert batches.stored_bytes(GOLDEN[: HEAD_BYTES - 1], 0) == 0
    assert batches.stored_bytes(bytes(HEAD_BYTES), 0) == 0
    assert batches.stored_bytes(forge(16, 57), 0) == 0
    assert batches.stored_bytes(forge(16, BATCH_BYTES_MAX + 8), 0) == 0


def test_limits_are_named() -> None:
    with pytest.raises(InvalidInput, match="at least one record"):
        building.build([], timestamp_us=0)
    with pytest.raises(InvalidInput, match="1 values came with 2 keys"):
        building.build([b"a"], [b"k", b"l"], timestamp_us=0)
    with pytest.raises(InvalidInput, match="value of record 1 is str"):
        building.build([b"a", "b"], timestamp_us=0)  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="key of record 0 is int"):
        building.build([b"a"], [7], timestamp_us=0)  # type: ignore[list-item]
    with pytest.raises(UnknownCompression, match="gzip"):
        building.build([b"a"], timestamp_us=0, compress="gzip")  # type: ignore[arg-type]


def test_sizes_are_bounded() -> None:
    half = bytes(RECORD_BYTES_MAX // 2)
    assert building.build([half], [half], timestamp_us=0).count == 1
    with pytest.raises(RecordTooLarge, match=f"record 1 .* {RECORD_BYTES_MAX}"):
        building.build([b"", half], [b"", half + b"x"], timestamp_us=0)
    with pytest.raises(BatchTooLarge, match=str(BATCH_BYTES_MAX)):
        building.build([half] * 4, timestamp_us=0)
    with pytest.raises(BatchTooLarge, match=str(BATCH_RECORDS_MAX)):
        building.build([b""] * (BATCH_RECORDS_MAX + 1), timestamp_us=0)


def test_the_largest_batch_can_be_parsed() -> None:
    room = BATCH_BYTES_MAX - HEAD_BYTES - 16
    values = [bytes(room // 2), bytes(room - room // 2)]
    largest = building.build(values, timestamp_us=0)
    assert largest.total_bytes == BATCH_BYTES_MAX
    assert batches.parse(data_of(largest)).count == 2
    with pytest.raises(BatchTooLarge):
        building.build([*values[:1], values[1] + b"x"], timestamp_us=0)


@given(rows=rows_with_keys, before=st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_arrow_over_the_same_memory(rows: list[Row], before: int) -> None:
    data = bytes(8 * before) + data_of(build_rows(rows))
    table = batches.parse(data, 8 * before).to_arrow(np.arange(len(rows), dtype=np.int64), 0)
    table.validate(full=True)
    assert list(zip(table["value"].to_pylist(), table["key"].to_pylist(), strict=True)) == rows
    low = np.frombuffer(data, np.uint8).ctypes.data
    buffers = [buffer for name in ("key", "value") for buffer in table[name].buffers() if buffer is not None]
    assert len(buffers) == 5
    for buffer in buffers:
        assert buffer.size == 0 or low <= buffer.address < low + len(data)
        assert buffer.size == 0 or buffer.address % 8 == 0


@given(rows=rows_with_keys, compress=compressions, low=st.integers(0, 19), keyed=st.booleans())
@settings(max_examples=100, deadline=None)
def test_arrow_makes_the_same_batch_as_bytes(rows: list[Row], compress: Compression, low: int, keyed: bool) -> None:
    low %= len(rows)
    values, keys = pa.array([value for value, _ in rows]), pa.array([key for _, key in rows], pa.binary())
    if keyed:
        built = building.build_arrow(values[low:], keys[low:], timestamp_us=STAMP, compress=compress)
        assert data_of(built) == data_of(build_rows(rows[low:], compress))
    else:
        built = building.build_arrow(values[low:], timestamp_us=STAMP, compress=compress)
        plain = building.build([value for value, _ in rows[low:]], timestamp_us=STAMP, compress=compress)
        assert data_of(built) == data_of(plain)


def test_arrow_limits() -> None:
    with pytest.raises(InvalidInput, match="at least one record"):
        building.build_arrow(pa.array([], pa.binary()), timestamp_us=0)
    with pytest.raises(InvalidInput, match="record 1 is null"):
        building.build_arrow(pa.array([b"a", None]), timestamp_us=0)
    with pytest.raises(RecordTooLarge):
        building.build_arrow(pa.array([bytes(RECORD_BYTES_MAX + 1)]), timestamp_us=0)
    with pytest.raises(BatchTooLarge):
        building.build_arrow(pa.array([bytes(8 * MIB)] * 5), timestamp_us=0)
