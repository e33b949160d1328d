"""Messages in frames: every one comes back as it was, and nothing else comes through."""

from types import ModuleType
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.examples import AT, EXAMPLES, LANE, LOG, NEWS, RAFT, SUMMARY

from ithaca.engines.scalog.messages import appending, numbers, order, reading, reporting
from ithaca.engines.scalog.messages.aggregation import Attach
from ithaca.model.errors import BatchTooLarge, ProtocolError
from ithaca.model.limits import (
    FRAME_HEADER_BYTES_MAX,
    HELLO_FEATURES_MAX,
    HELLO_TEXT_BYTES_MAX,
    KIB,
    LANE_RECORDS_MAX,
    MIB,
    READ_WAIT_MS_MAX,
    REPORT_LANES_MAX,
)
from ithaca.protocol import greeting, messages
from ithaca.protocol.codec import Message, Received, decode_message, encode_message, known_types, register
from ithaca.protocol.filters import Filter
from ithaca.raft.messages import AnyMessage
from ithaca.wire.frame import Frame, FrameDecoder

TYPES = {**messages.TYPES, **numbers.TYPES}
_NUMBER = {kind: number for number, kind in TYPES.items()}


def frame_of(message: Message, **options: Any) -> Frame:
    """The frame that arrives when this message is sent."""
    decoder = FrameDecoder()
    decoder.greeted()
    (frame,) = decoder.feed(b"".join(map(bytes, encode_message(message, **options))))
    return frame


def arrived(message: Message, **options: Any) -> Received:
    return decode_message(frame_of(message, **options))


def test_every_message_has_an_example() -> None:
    assert {type(example) for example in EXAMPLES} == set(TYPES.values())
    assert {type(news) for news in NEWS} == set(get_args(reporting.ShardNews))
    assert {type(said) for said in RAFT} == set(get_args(AnyMessage))
    applied = next(example for example in EXAMPLES if isinstance(example, order.Applied))
    assert {type(outcome) for outcome in applied.outcomes} == set(get_args(order.AppliedOutcome))


@pytest.mark.parametrize("listed", [messages, numbers])
def test_the_table_of_messages_is_the_list_of_types(listed: ModuleType) -> None:
    rows = [
        line.split("|") for line in (listed.__doc__ or "").splitlines() if line.startswith("| ") and "type" not in line
    ]
    assert {int(row[1]): row[2].strip() for row in rows} == {
        number: kind.__name__ for number, kind in listed.TYPES.items()
    }


def test_a_number_belongs_to_one_message() -> None:
    register(numbers.TYPES)
    with pytest.raises(ValueError, match="frames of type 1 are Hello, not Welcome"):
        register({1: greeting.Welcome})
    assert TYPES.items() <= known_types().items()


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert arrived(message) == Received(message, 0, False, b"")
    received = arrived(message, correlation=0xFFFF_FFFF, answer=True, payload=[b"8 bytes ", b"8 more. "])
    assert received[:3] == (message, 0xFFFF_FFFF, True)
    assert bytes(received.payload) == b"8 bytes 8 more. "


@pytest.mark.parametrize(
    ("plain", "other"),
    [
        (greeting.Hello(1, 2, "client", "x"), greeting.Hello(1, 2, "client", "x", engine="corfu")),
        (greeting.Welcome(2, "orderer", "1"), greeting.Welcome(2, "orderer", "1", engine="corfu")),
    ],
    ids=["Hello", "Welcome"],
)
def test_the_engine_is_said_where_it_is_not_the_first_one(plain: Message, other: Message) -> None:
    """So servers and clients that do not know of engines say what they always said, and are understood."""
    said = [msgspec.msgpack.decode(frame_of(message).header) for message in (plain, other)]
    assert said[1] == [*said[0], "corfu"]
    assert len(said[0]) == len(plain.__struct_fields__) - 1
    assert arrived(plain).message.engine == "scalog"  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [FRAME_HEADER_BYTES_MAX - 16, FRAME_HEADER_BYTES_MAX, 70_001, 5 * MIB])
def test_a_large_message_travels_in_the_payload_before_its_batches(size: int) -> None:
    message = greeting.StatusIs(b"x" * size)
    assert arrived(message).message == message
    assert len(arrived(message).payload) == 0
    received = arrived(message, payload=[b"8 bytes "])
    assert (received.message, bytes(received.payload)) == (message, b"8 bytes ")


def test_a_message_too_large_for_a_frame_is_not_sent() -> None:
    with pytest.raises(BatchTooLarge):
        encode_message(greeting.StatusIs(bytes(33 * MIB)))


def test_large_summaries_fit() -> None:
    summary = msgspec.structs.replace(SUMMARY, sessions=SUMMARY.sessions * 5000)
    joined = reporting.Joined(LOG, LANE, summary, tuple([SUMMARY.cut] * 5000))
    assert arrived(joined).message == joined


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (greeting.Hello(-1, 1, "client"), ">= 0"),
        (greeting.Hello(1, 1, "spy"), "Invalid enum"),  # type: ignore[arg-type]
        (greeting.Hello(1, 1, "client", "x" * (HELLO_TEXT_BYTES_MAX + 1)), "<= 255"),
        (greeting.Hello(1, 1, "client", features=("x",) * (HELLO_FEATURES_MAX + 1)), "<= 32"),
        (greeting.Hello(1, 1, "client", credentials=bytes(KIB + 1)), "<= 1024"),
        (order.GetView(1 << 63), "<= 9223372036854775807"),
        (reading.Read(0), ">= 1"),
        (reading.Read(1, READ_WAIT_MS_MAX + 1), "<= 60000"),
        (reading.Subscribe(0), ">= 1"),
        (reading.Subscribe(1, None, Filter("regex")), "Invalid enum"),  # type: ignore[arg-type]
        (reporting.Join(1, 0, 0), ">= 1"),
        (reporting.Join(1, 0, 1, (AT,) * 65), "<= 64"),
        (Attach(0, AT), ">= 1"),
        (Attach(1, AT, 8), "<= 7"),
        (appending.GetNextSeq(LANE, 0, 1), ">= 1"),
        (appending.Append((1, 2)), "length 3"),  # type: ignore[arg-type]
        (order.Propose("text"), "Expected `bytes`"),  # type: ignore[arg-type]
        (appending.Acks(((1, 2, 3),)), "length 2"),  # type: ignore[arg-type]
    ],
)
def test_bounds_are_enforced(message: Message, reason: str) -> None:
    with pytest.raises(ProtocolError, match=f"a {type(message).__name__} cannot be decoded: .*{reason}"):
        arrived(message)


@pytest.mark.parametrize(
    "report",
    [
        (1, 1, 0, 1, 0, [[(1, 0, 1), LANE_RECORDS_MAX + 1]]),
        (1, 1, 0, 1, 0, [[(1, 0, 1), -1]]),
        (1, 1, 0, 1, 0, [[(2, 0, 1), 5]]),
        (1, 1, 0, 1, 0, [[(1, 0, 0), 5]]),
        (1, 1, 0, 1, 0, [[(1, 0, 1), 5]] * (REPORT_LANES_MAX + 1)),
        (1, 0, 0, 1, 0, []),
    ],
)
def test_an_impossible_report_is_refused(report: tuple[Any, ...]) -> None:
    with pytest.raises(ProtocolError, match="a ReportIs cannot be decoded"):
        decode_message(Frame(_NUMBER[reporting.ReportIs], 0, 0, msgspec.msgpack.encode([report])))


def test_unknown_types_and_flags_are_refused() -> None:
    for number in set(range(256)) - set(known_types()):
        with pytest.raises(ProtocolError, match=f"type {number} is not known"):
            decode_message(Frame(number, 0, 0, b"\x90"))
    with pytest.raises(ProtocolError, match="flags 0x6"):
        decode_message(Frame(6, 0b110, 0, b"\x90"))


@pytest.mark.parametrize(
    ("length", "payload", "reason"),
    [
        (9, b"", "9 bytes is not in a payload of 0"),
        (9, bytes(8), "9 bytes is not in a payload of 8"),
        (1 << 40, bytes(8), "is not in a payload of 8"),
        (-8, bytes(8), "-8 bytes is not in a payload"),
        (1, b"\x90\0\0\0\0\0\0\1", "padding"),
        ("1", bytes(8), "Expected `int`"),
    ],
)
def test_a_message_that_is_not_where_it_says(length: Any, payload: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_message(Frame(6, 1, 0, msgspec.msgpack.encode(length), payload))


@pytest.mark.parametrize(
    "header",
    [b"", b"\x90\x90", b"\xc1", b"\x80", b"\xdd\xff\xff\xff\xff", b"\x91" * 60_000],
    ids=["nothing", "more", "reserved", "map", "endless", "deep"],
)
def test_malformed_headers_are_refused(header: bytes) -> None:
    for number, kind in TYPES.items():
        with pytest.raises(ProtocolError, match=f"a {kind.__name__} cannot be decoded"):
            decode_message(Frame(number, 0, 0, header))


def test_text_that_is_none_is_refused() -> None:
    with pytest.raises(ProtocolError, match="a Redirect cannot be decoded"):
        decode_message(Frame(_NUMBER[greeting.Redirect], 0, 0, b"\x91\x92\xa2\xff\xff\x01"))


def test_what_a_newer_version_adds_is_passed_over() -> None:
    header = msgspec.msgpack.encode([5, ["more"], {"than": "known"}])
    assert decode_message(Frame(_NUMBER[order.GetView], 0, 0, header)).message == order.GetView(5)


@given(
    number=st.sampled_from(sorted(TYPES)),
    flags=st.integers(0, 3),
    header=st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.one_of(st.none(), st.integers(-(1 << 63), (1 << 64) - 1), st.text(max_size=5), st.binary(max_size=20)),
            lambda inner: st.lists(inner, max_size=6),
            max_leaves=12,
        ).map(lambda value: msgspec.msgpack.encode([value])),
    ),
    payload=st.binary(max_size=40),
)
@settings(max_examples=400, deadline=None)
def test_whatever_comes_is_a_message_or_a_protocol_error(
    number: int, flags: int, header: bytes, payload: bytes
) -> None:
    try:
        received = decode_message(Frame(number, flags, 0, header, payload))
    except ProtocolError:
        return
    assert type(received.message) is TYPES[number]
    assert arrived(received.message).message == received.message


@given(example=st.sampled_from(EXAMPLES), at=st.integers(0, 1 << 20), bit=st.integers(0, 7))
@settings(max_examples=400, deadline=None)
def test_a_flipped_bit_is_a_message_or_is_refused(example: Message, at: int, bit: int) -> None:
    frame = frame_of(example)
    header = bytearray(frame.header)
    header[at % len(header)] ^= 1 << bit
    try:
        received = decode_message(frame._replace(header=bytes(header)))
    except ProtocolError:
        return
    assert type(received.message) is type(example)
