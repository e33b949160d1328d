"""Latencies on simulated machines count messages, and nothing else."""

from dataclasses import replace

import pytest

from ithaca.model.errors import Unavailable
from ithaca.sim import latency
from ithaca.sim.latency import Latencies, LatencySettings, compare_latencies, simulate_latencies

SMALL = LatencySettings(shards=2, orderers=1, records_per_s=50, seconds=0.2)


def test_records_are_delivered_before_they_are_final_and_the_same_again() -> None:
    (point,) = compare_latencies(("belfast", "scalog"), SMALL, (2,))
    belfast, scalog = point["engines"]["belfast"], point["engines"]["scalog"]
    assert belfast["delivery_ms"] < belfast["final_ms"]
    assert belfast["delivery_ms"] < scalog["delivery_ms"] == scalog["final_ms"]
    assert (belfast["failed"], scalog["failed"]) == (0, 0)
    assert simulate_latencies("belfast", SMALL) == simulate_latencies("belfast", SMALL)


def test_a_result_may_be_shown_when_it_is_computed_and_its_place_is_final() -> None:
    seen = Latencies([], delivery_s=[1.0, 2.0], final_s=[4.0, 4.0], failed=0)
    assert seen.end_to_end_s(0.0) == [4.0, 4.0]
    assert seen.end_to_end_s(2.5) == [4.0, 4.5]
    settings = replace(SMALL, order_interval_us=10_000)
    (point,) = compare_latencies(("belfast", "scalog"), settings, (2,), (2.0,))
    belfast, scalog = point["engines"]["belfast"], point["engines"]["scalog"]
    assert scalog["end_to_end_ms"]["2"] == pytest.approx(scalog["final_ms"] + 2, abs=0.002)
    assert belfast["end_to_end_ms"]["2"] < scalog["end_to_end_ms"]["2"]
    assert belfast["delivery_ms"] * 3 < scalog["delivery_ms"], "with a clock there is something to wait for"


def test_with_one_shard_belfast_acknowledges_as_early_as_scalog() -> None:
    """Followers report to the leader themselves: seven messages, one after the other, in either engine."""
    (point,) = compare_latencies(("belfast", "scalog"), SMALL, (1,))
    belfast, scalog = point["engines"]["belfast"], point["engines"]["scalog"]
    assert belfast["append_ms"] == pytest.approx(scalog["append_ms"], rel=0.02)
    assert belfast["delivery_ms"] == pytest.approx(0.4, rel=0.02)


def test_a_load_that_is_not_ordered_in_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "WITHIN_S", 1.0)
    with pytest.raises(Unavailable, match="lower the load"):
        simulate_latencies("scalog", SMALL)
