"""What a session takes along to its next home."""

import pytest

from ithaca.model.errors import ProtocolError
from ithaca.model.limits import SEQUENCE_MAX, SESSION_BATCHES_MAX, SESSION_CARRIED_BYTES_MAX, SHARD_NUMBER_MAX
from ithaca.sessions.carried import Carried, decode_carried, encode_carried, merged_carried

BATCHES: list[Carried] = [(number, 1, 100 + number, 0) for number in range(1, SESSION_BATCHES_MAX + 1)]


def test_the_largest_numbers_fit_into_what_a_session_may_carry() -> None:
    largest = (1 << 64) - 1
    step, count = 1 << 33, (1 << 32) - 1
    spread = [(SEQUENCE_MAX - (SESSION_BATCHES_MAX - n) * step, count, largest, SHARD_NUMBER_MAX) for n in range(8)]
    assert decode_carried(encode_carried(spread)) == spread
    assert len(encode_carried(spread)) <= SESSION_CARRIED_BYTES_MAX


def test_a_session_cannot_be_made_to_run_out_of_numbers() -> None:
    last = (SEQUENCE_MAX - 1, 1, 17, 0)
    assert decode_carried(encode_carried([last])) == [last]
    with pytest.raises(ProtocolError, match="above the last"):
        decode_carried(encode_carried([(SEQUENCE_MAX - 1, 2, 17, 0)]))


def test_only_the_last_batches_are_carried() -> None:
    more = [*BATCHES, (9, 2, 300, 1)]
    assert decode_carried(encode_carried(more)) == more[1:]
    assert merged_carried(BATCHES, [(9, 2, 300, 1)]) == more[1:]


def test_a_session_that_did_nothing_since_keeps_what_it_brought() -> None:
    assert merged_carried(BATCHES, []) == BATCHES
    assert decode_carried(b"") == []


@pytest.mark.parametrize(
    "bad",
    [
        b"\xc1",
        b"\x91\x94\x01\x00\x01\x00",
        encode_carried([(5, 1, 9, 0), (3, 1, 10, 0)]),
        encode_carried([(1, 1, 9, SHARD_NUMBER_MAX + 1)]),
    ],
)
def test_what_is_not_a_list_of_batches_in_order_is_refused(bad: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_carried(bad)
