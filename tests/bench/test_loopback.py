"""The bare sender sends what it says, and the receivers count it."""

import multiprocessing
from contextlib import ExitStack

import pytest

from ithaca.bench.cluster.loopback import receive_bytes, receive_records, round_trips, start_loopback


@pytest.mark.parametrize("total_bytes", [1000, 3_000_000])
def test_both_receivers_get_every_byte(total_bytes: int) -> None:
    with ExitStack() as stack:
        loopback = start_loopback(stack, total_bytes, 300)
        whole = total_bytes // 300 * 300
        for receive in (receive_bytes, receive_records):
            sample = receive(loopback)
            assert (sample.records, sample.bytes) == (total_bytes // 300, whole)
    assert multiprocessing.active_children() == []


def test_round_trips_are_timed_one_by_one() -> None:
    with ExitStack() as stack:
        sample = round_trips(start_loopback(stack, 1000, 100), 0.05)
    assert sample.records > 1
    assert sample.latency.p50 * sample.records <= 2 * sample.seconds * 1e3
