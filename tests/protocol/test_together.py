"""What is taken together is what would have been taken one by one; what is malformed ends it with the same error."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ithaca.engines.scalog.messages.reporting import ReportIs, SignOfLife
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.model.errors import InvalidInput, IthacaError
from ithaca.model.limits import REPORT_LANES_MAX
from ithaca.model.positions import LaneId
from ithaca.protocol.codec import Received, encode_message
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, Hello
from ithaca.protocol.together import Together
from ithaca.runtime.connection import Connection, Peer
from ithaca.wire.frame import Frame, encode

NUMBER = 23
"""Of the frames of `ReportIs`."""


def report(shard: int) -> ReportIs:
    return ReportIs(Report(shard, 1, 0, 1, 3, ((LaneId(shard, 0, 1), 5),)))


def framed(shard: int) -> bytes:
    return b"".join(bytes(part) for part in encode_message(report(shard)))


def raw(header: bytes, *, number: int = NUMBER, flags: int = 0) -> bytes:
    return b"".join(bytes(part) for part in encode(Frame(number, flags, 0, header)))


def header_of(shard: int) -> bytes:
    return framed(shard)[16:].rstrip(b"\0")


SIGN = b"".join(bytes(part) for part in encode_message(SignOfLife(True)))
LARGE = b"".join(
    bytes(part)
    for part in encode_message(
        ReportIs(Report(8, 1, 0, 1, 0, tuple((LaneId(8, 0, 1 << 20 | each), 1 << 40) for each in range(4000))))
    )
)
"""More than fits into a header, so that it has a flag."""
PIECES: list[bytes] = [
    *map(framed, range(5)),
    SIGN,
    raw(header_of(1) + header_of(2)),  # two where one belongs, and none where one belongs
    raw(b""),
    raw(header_of(1)[:-1]),
    raw(b"\x91\xc0"),
    raw(header_of(1).replace(b"\x93\x01", b"\x93\x02", 1)),  # a lane of another shard
    raw(header_of(1), flags=0b100),
    raw(header_of(1), number=250),
    b"\0" * 16,  # no frame
    LARGE,
]


class Transport(asyncio.Transport):
    """Takes what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 7) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def writelines(self, list_of_data: Any) -> None:
        pass

    def write(self, data: Any) -> None:
        pass

    def write_eof(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        self.is_over = True

    def abort(self) -> None:
        self.is_over = True


class Taking(Peer):
    """Takes reports, together or one by one, until one comes of a shard that it refuses, or after which it closes."""

    def __init__(self, *, refuses: int | None, closes: int | None) -> None:
        self.refuses = refuses
        self.closes = closes
        self.taken: list[object] = []
        self.together = 0
        self.lost: IthacaError | None = None

    def on_message(self, connection: Connection, received: Received) -> None:
        self.take(connection, received.message)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        self.lost = error

    def take_all(self, connection: Connection, messages: Sequence[ReportIs]) -> None:
        self.together += 1
        for message in messages:
            self.take(connection, message)

    def take(self, connection: Connection, message: object) -> None:
        if isinstance(message, ReportIs) and message.report.shard == self.refuses:
            raise InvalidInput(f"nothing of shard {self.refuses}")
        self.taken.append(message)
        if message == SignOfLife(True) and self.closes is not None:
            connection.close()


async def received(chunks: Sequence[bytes], peer: Taking, *, together: bool, judged: bool = False) -> str:
    """What was wrong, in the end."""
    connection = Connection(lambda connection, received: peer)
    connection.connection_made(Transport())
    hello = encode_message(Hello(VERSION_MIN, VERSION_MAX, "replica", "0/0"))
    for chunk in (b"".join(bytes(part) for part in hello), *chunks):
        while chunk:
            room = connection.get_buffer(-1)
            size = min(len(room), len(chunk))
            room[:size] = chunk[:size]
            connection.buffer_updated(size)
            chunk = chunk[size:]
        if together:
            connection.together = Together.of(ReportIs, peer.take_all)
        if judged:
            connection.judge = lambda received: None
    error, is_open = connection.lost_error(), connection.is_open
    connection.connection_lost(None)
    return f"{type(error).__name__}: {error}, open: {is_open}"


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from([None, 3]), st.sampled_from([None, 1]))
def test_the_same_is_taken_and_the_same_is_wrong(pieces: list[bytes], refuses: int | None, closes: int | None) -> None:
    """All at once, each piece by itself, and by a connection that knows nothing of taking together."""

    async def judge() -> None:
        peers = [Taking(refuses=refuses, closes=closes) for _ in range(4)]
        chunks, whole = pieces, [b"".join(pieces)]
        wrong = [
            await received(whole, peers[0], together=True),
            await received(chunks, peers[1], together=True),
            await received(whole, peers[2], together=False),
            await received(whole, peers[3], together=True, judged=True),
        ]
        assert len(set(wrong)) == 1, wrong
        assert peers[0].taken == peers[1].taken == peers[2].taken == peers[3].taken
        assert peers[1].together == peers[2].together == peers[3].together == 0

    asyncio.run(judge())


@pytest.mark.parametrize("shards", [2, 100, 300])
def test_what_came_together_is_taken_in_one_go(shards: int) -> None:
    peer = Taking(refuses=None, closes=None)
    wrong = asyncio.run(received([b"".join(map(framed, range(1, shards + 1)))], peer, together=True))
    assert peer.taken == [report(shard) for shard in range(1, shards + 1)]
    assert (peer.together, wrong) == (1, "Unavailable: the connection to 127.0.0.1:7 has ended, open: True")


def test_the_pieces_are_what_they_are_meant_to_be() -> None:
    assert len(LARGE) > 65_536
    assert LARGE[4:6] == bytes([NUMBER, 1])
    assert REPORT_LANES_MAX >= 4000
