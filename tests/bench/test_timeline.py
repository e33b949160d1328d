"""What a timeline says of gaps, backlogs and rates."""

import math

import numpy as np
import pytest

from ithaca.bench.experiments.timeline import Timeline


def timeline(*batches: tuple[float, float], seconds: float = 1.0, clients: tuple[int, ...] = ()) -> Timeline:
    """Of (due, done), in seconds; each batch is of 10 records."""
    due, done = zip(*batches, strict=True) if batches else ((), ())
    numbers = np.asarray(clients or (0,) * len(batches), np.int32)
    return Timeline(seconds, 10, np.asarray(due, float), np.asarray(done, float), numbers, numbers)


def test_records_are_counted_within_the_turn() -> None:
    turn = timeline((0.0, 0.005), (0.1, 0.105), (0.2, 0.5), (0.9, 1.2), (0.95, math.nan))
    assert turn.completed() == 30
    assert turn.completed(0.1) == 20
    assert turn.failed == 1
    bins = turn.bins()
    assert (len(bins), bins.sum(), bins[0], bins[10], bins[50]) == (100, 30, 10, 10, 10)


def test_the_longest_gap_is_between_acknowledgements_or_up_to_the_end() -> None:
    assert timeline((0.0, 0.1), (0.1, 0.2), (0.2, 0.7), (0.6, 0.95)).longest_gap() == pytest.approx((0.5, 0.7))
    assert timeline((0.0, 0.1), (0.1, 0.2)).longest_gap() == pytest.approx((0.8, 1.0))
    assert timeline((0.0, math.nan)).longest_gap() == pytest.approx((1.0, 1.0))


def test_only_gaps_that_end_later_count_after_an_event() -> None:
    turn = timeline((0.0, 0.4), (0.4, 0.5), (0.5, 0.6), (0.7, 0.85), (0.8, 0.9))
    assert turn.longest_gap() == pytest.approx((0.4, 0.4))
    assert turn.longest_gap(0.55) == pytest.approx((0.25, 0.85))


def test_a_backlog_is_caught_up_when_it_is_as_small_as_usual() -> None:
    due = np.arange(100) / 100
    done = np.where((due >= 0.3) & (due < 0.5), 0.5 + (due - 0.3) / 4, due + 0.005)
    turn = Timeline(1.0, 1, due, done, np.zeros(100, np.int32), np.zeros(100, np.int32))
    quiet = Timeline(1.0, 1, due, due + 0.005, np.zeros(100, np.int32), np.zeros(100, np.int32))
    assert quiet.usual_backlog() <= 1
    assert turn.backlog(np.asarray([0.495]))[0] == 20
    assert 0.5 < turn.caught_up_s(0.5, quiet.usual_backlog()) <= 0.55
    assert turn.caught_up_s(0.5, -1) == math.inf


def test_latency_counts_from_when_a_batch_was_due() -> None:
    turn = timeline((0.0, 0.010), (0.1, 0.130), (0.2, math.nan))
    assert turn.latency_ms() == {"p50": 20.0, "p99": pytest.approx(29.8), "max": 30.0}
    assert timeline((0.0, math.nan)).latency_ms() == {"p50": None, "p99": None, "max": None}


def test_clients_can_be_looked_at_apart() -> None:
    turn = timeline((0.0, 0.1), (0.1, 0.2), (0.2, 0.3), clients=(0, 1, 0))
    assert turn.of_clients({0}).completed() == 20
    assert turn.of_clients({0}, others=True).completed() == 10
    assert turn.of_clients(set()).completed() == 0


def test_the_report_of_a_turn() -> None:
    report = timeline((0.0, 0.25), (0.5, 0.75)).to_json()
    assert report["records"] == 20
    assert report["longest_gap_ms"] == 500
    assert report["longest_gap_end_s"] == 0.75
    assert report["failed_batches"] == 0
