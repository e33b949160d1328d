"""What comes over connections: frames, messages, batches, compressed bodies."""

from random import Random
from typing import Any, NamedTuple

import numpy as np
from tests.fuzz import repairs
from tests.fuzz.target import Target
from tests.protocol.examples import EXAMPLES
from tests.protocol.made import MADE
from tests.wire.batches import Row, data_of, rows_of
from tests.wire.test_frame import cut, decode, wire

from ithaca.engines.scalog.messages import appending, copying, reading
from ithaca.model.cut import lane_key
from ithaca.model.errors import Corrupt, FormatTooNew, IthacaError, ProtocolError, UnknownCompression
from ithaca.model.limits import BATCH_BYTES_MAX, FRAME_BYTES_MAX, MIB, RECEIVE_BLOCK_BYTES
from ithaca.model.positions import LaneId
from ithaca.model.records import KeyFilter
from ithaca.model.view import Address
from ithaca.protocol import greeting
from ithaca.protocol.codec import Received, decode_message, encode_message
from ithaca.protocol.failures import error_of
from ithaca.protocol.filters import Filter, key_filter
from ithaca.wire import compression, keys
from ithaca.wire.batch import CONTROL, DATA, KEYS, MARK, Batch, parse, sealed
from ithaca.wire.build import bookkeeping, build, noops
from ithaca.wire.frame import Frame


def _chunks(stream: bytes) -> list[bytes]:
    """The stream cut at places that follow from its bytes alone."""
    random = Random(stream)
    places = [random.randrange(len(stream) + 1) for _ in range(random.randrange(8))]
    return cut(stream, places)


def _frames(stream: bytes) -> list[Frame]:
    """However the stream is cut, the frames and the error are the same."""
    whole = frames, error = decode([stream])
    assert decode(_chunks(stream)) == whole
    assert decode([stream[at : at + 1] for at in range(len(stream))]) == whole
    said = wire(*frames)
    assert said == stream[: len(said)]
    if error is not None:
        raise ProtocolError(error)
    return frames


def _messages(stream: bytes) -> list[Received]:
    """Every message of a stream, and what receivers make of it first."""
    frames, error = decode([stream])
    found = [decode_message(frame) for frame in frames]
    if error is not None:
        raise ProtocolError(error)
    for received in found:
        _used(received.message)
    return [received._replace(payload=bytes(received.payload)) for received in found]


def _used(message: object) -> None:
    match message:
        case greeting.Failure():
            assert isinstance(error_of(message), IthacaError)
        case reading.Subscribe(where=Filter() as where):
            assert isinstance(key_filter(where), KeyFilter)
        case copying.RunsReply(runs):
            np.array(runs, np.int64)
    for lane in _lanes(message):
        lane_key(lane)


def _lanes(value: Any) -> list[LaneId]:
    """Every lane that a message names; receivers take for granted that it can exist."""
    if isinstance(value, LaneId):
        return [value]
    if hasattr(value, "__struct_fields__"):
        value = [getattr(value, name) for name in value.__struct_fields__]
    if isinstance(value, list | tuple):
        return [lane for each in value for lane in _lanes(each)]
    return []


def _said(found: list[Received]) -> bytes:
    parts = (
        encode_message(each.message, correlation=each.correlation, answer=each.is_answer, payload=[each.payload])
        for each in found
    )
    return b"".join(bytes(buffer) for part in parts for buffer in part)


class _Content(NamedTuple):
    """A batch as its readers see it."""

    stored: bytes
    rows: list[Row]


def _batch(data: bytes) -> _Content:
    batch = parse(data)
    stored = data_of(batch)
    said = sealed(
        batch.kind,
        batch.flags,
        batch.count,
        batch.timestamp_us,
        (batch.producer_id, batch.producer_epoch, batch.first_seq),
        bytes(batch.body),
        batch.raw_bytes,
    )
    assert stored[:48] + stored[60:] == said.head[:48] + said.head[60:] + bytes(said.body)
    return _Content(stored, _rows(batch) if batch.kind == DATA else [])


def _rows(batch: Batch) -> list[Row]:
    """The records, read in every way, and the same when they are built into a batch again."""
    records = batch.records(1, 0)
    rows = rows_of(records)
    assert len(rows) == batch.count
    table = batch.to_arrow(np.arange(1, batch.count + 1), 0)
    table.validate(full=True)
    assert table.column("value").to_pylist() == [value for value, _ in rows]
    assert table.column("key").to_pylist() == [key for _, key in rows]
    if batch.flags & KEYS:
        for where in (KeyFilter.prefix(b""), KeyFilter.hash_range(0, 1 << 64)):
            selected = keys.select(where, *batch.columns().key_vectors()).tolist()
            assert selected == [at for at, (_, key) in enumerate(rows) if key is not None]
    again = build([value for value, _ in rows], [key for _, key in rows], timestamp_us=batch.timestamp_us)
    assert rows_of(again.records(1, 0)) == rows
    return rows


def _body(data: bytes) -> tuple[int, bytes]:
    """A flag, the size of the body, and what is stored of it."""
    code, raw_bytes = data[0] % 4 if data else 0, int.from_bytes(data[1:5], "little") % (BATCH_BYTES_MAX + 1)
    return code, compression.decompress(code, data[5:], raw_bytes)


def _stored(body: tuple[int, bytes]) -> bytes:
    code, raw = body
    return bytes([code]) + len(raw).to_bytes(4, "little") + compression.compress(compression.name_of(code), raw)


_ROWS: list[Row] = [(b"value-%d" % at * 9, None if at % 3 == 0 else b"key-%d" % (at % 4)) for at in range(9)]
_VALUES, _KEYS = [value for value, _ in _ROWS], [key for _, key in _ROWS]
_SAID = (*EXAMPLES, *(each for each in MADE if type(each) not in set(map(type, EXAMPLES))))
"""Those of other engines than scalog's, too."""
_FRAMES: tuple[list[Frame], ...] = (
    [Frame(3, 1, 9, b"\x81\xa1a\x01", b"12345678")],
    [Frame(1, 0, 0, b""), Frame(70, 2, 0xFFFF_FFFF, bytes(17), bytes(64)), Frame(255, 255, 1, b"x")],
    [],
)
BATCHES = tuple(
    data_of(batch.placed(7, 1))
    for batch in (
        build(_VALUES, timestamp_us=5),
        build(_VALUES, _KEYS, timestamp_us=5, producer=(3, 1, 9)),
        build(_VALUES, _KEYS, timestamp_us=5, compress="lz4"),
        build(_VALUES, _KEYS, timestamp_us=5, compress="zstd"),
        build([b""], [b""], timestamp_us=0),
        noops(5, timestamp_us=9),
        bookkeeping(CONTROL, b"control"),
        bookkeeping(MARK),
    )
)

TARGETS: tuple[Target[Any], ...] = (
    Target(
        "frames",
        _frames,
        (ProtocolError,),
        tuple(wire(*frames) for frames in _FRAMES),
        lambda frames: wire(*frames),
        repairs.frames,
        # A frame's block is as long as it says and not touched before something arrives: tests/wire/test_frame.py.
        memory_bytes_max=4 * (FRAME_BYTES_MAX + RECEIVE_BLOCK_BYTES),
    ),
    Target(
        "messages",
        _messages,
        (ProtocolError,),
        tuple(_said([Received(example, 7, at % 2 == 0, b"")]) for at, example in enumerate(_SAID)),
        _said,
        repairs.frames,
        memory_bytes_max=2 * (FRAME_BYTES_MAX + RECEIVE_BLOCK_BYTES),
        regressions=tuple(
            _said([Received(message, 7, False, b"")])
            for message in (
                appending.Append(LaneId(1, 0, 0)),
                reading.Found(LaneId(1 << 32, 0, 1), 9),
                copying.RunsReply(((1, 1, (1 << 64) - 1, 0),)),
                greeting.Redirect(Address("host", 1 << 40)),
            )
        ),
    ),
    Target(
        "batch",
        _batch,
        (Corrupt, FormatTooNew, UnknownCompression),
        BATCHES,
        lambda content: content.stored,
        repairs.batch,
        regressions=(data_of(build([b"value"], timestamp_us=5, producer=(1, 1, (1 << 64) - 1))),),
    ),
    Target(
        "compression",
        _body,
        (Corrupt, UnknownCompression),
        tuple(_stored((code, raw)) for code in (0, 1, 2) for raw in (b"", b"body", b"again " * 99)),
        _stored,
        # Both formats say how large the content is, and a body may be as large as a batch.
        memory_bytes_max=2 * BATCH_BYTES_MAX + MIB,
    ),
)
