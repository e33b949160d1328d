"""What a session takes along when it moves to another home: its last batches, with what became of them."""

from collections.abc import Iterable

import msgspec

from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import ProtocolError
from ithaca.model.limits import SEQUENCE_MAX, SESSION_BATCHES_MAX, SESSION_CARRIED_BYTES_MAX, SHARD_NUMBER_MAX

Carried = tuple[int, int, int, int]
"""A batch of a session that is ordered: its first number, its records, its position (0 when that was trimmed, and is
not known any more), and its shard."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Carried])


def encode_carried(placed: Iterable[Carried]) -> bytes:
    """What a session takes along to its next home: its last batches, in order.

    >>> decode_carried(encode_carried([(1, 2, 17, 0), (3, 1, 40, 2)]))
    [(1, 2, 17, 0), (3, 1, 40, 2)]
    """
    data = _encoder.encode(list(placed)[-SESSION_BATCHES_MAX:])
    assert len(data) <= SESSION_CARRIED_BYTES_MAX
    return data


def decode_carried(data: bytes) -> list[Carried]:
    """The inverse of `encode_carried`; a session that has done nothing takes along nothing."""
    if not data:
        return []
    try:
        placed = _decoder.decode(data)
    except UNDECODABLE as error:
        raise ProtocolError(f"what a session carries cannot be decoded: {error}") from error
    after = 1
    for first_seq, count, position, shard in placed:
        if first_seq < after or count < 1 or position < 0 or not 0 <= shard <= SHARD_NUMBER_MAX:
            raise ProtocolError(f"what a session carries is not a list of batches in order: {placed}")
        after = first_seq + count
    if after > SEQUENCE_MAX:
        raise ProtocolError(f"what a session carries ends with number {after - 1}, above the last, {SEQUENCE_MAX - 1}")
    return placed[-SESSION_BATCHES_MAX:]


def merged_carried(older: Iterable[Carried], newer: Iterable[Carried]) -> list[Carried]:
    """What a session takes along that brought `older` with it, and did `newer` since.

    >>> merged_carried([(1, 2, 17, 0), (3, 1, 40, 0)], [(3, 1, 40, 0), (4, 1, 55, 2)])
    [(1, 2, 17, 0), (3, 1, 40, 0), (4, 1, 55, 2)]
    """
    by_number = {batch[0]: batch for batch in (*older, *newer)}
    return [by_number[first_seq] for first_seq in sorted(by_number)][-SESSION_BATCHES_MAX:]
