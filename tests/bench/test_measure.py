"""The arithmetic of measuring: percentiles, budgets, turns, medians, ratios."""

import io
from pathlib import Path

import pytest
from rich.console import Console

import ithaca
from ithaca.bench.measure import (
    Budget,
    Latency,
    Sample,
    in_threads,
    interleave,
    rate_table,
    ratios,
    repeat,
    repeat_ahead,
    summarize,
)


def sample(bytes_per_s: int, p50_ms: float = 1.0) -> Sample:
    return Sample(records=bytes_per_s // 10, bytes=bytes_per_s, seconds=1.0, latency=Latency(p50_ms, 2.0, 3.0))


def test_percentiles_are_in_milliseconds() -> None:
    latency = Latency.of([n / 1000 for n in range(1, 101)])
    assert latency.p50 == pytest.approx(50.5)
    assert latency.p99 == pytest.approx(99.01)
    assert latency.max == pytest.approx(100.0)


def test_a_byte_budget_ends_after_the_turn_that_reaches_it() -> None:
    turns: list[int] = []
    got = repeat(turns.append, records=2, record_bytes=10, budget=Budget(bytes=50))
    assert turns == [0, 1, 2]
    assert (got.records, got.bytes) == (6, 60)


def test_a_time_budget_of_nothing_still_measures_once() -> None:
    turns: list[int] = []
    assert repeat(turns.append, records=1, record_bytes=1, budget=Budget(seconds=0)).records == 1
    assert turns == [0]


def test_only_so_many_are_under_way_and_all_are_waited_for(tmp_path: Path) -> None:
    steps: list[str] = []

    def begin(turn: int) -> ithaca.Pending:
        steps.append(f"begin {turn}")
        return log.submit_many([bytes(10)] * 2)

    with ithaca.open(tmp_path) as log:
        got = repeat_ahead(2, begin, lambda receipt: steps.append(f"at {receipt.position}"), 2, 10, Budget(bytes=50))
    assert steps == ["begin 0", "begin 1", "at 1", "begin 2", "at 3", "at 5"]
    assert (got.records, got.bytes) == (6, 60)


def test_threads_add_up() -> None:
    together = in_threads(3, lambda: repeat(lambda turn: None, records=2, record_bytes=10, budget=Budget(bytes=40)))
    assert (together.records, together.bytes) == (12, 120)


def test_contenders_take_turns_at_going_first() -> None:
    order: list[str] = []

    def contender(name: str) -> Sample:
        order.append(name)
        return sample(100)

    told: list[str] = []
    samples = interleave({"a": lambda: contender("a"), "b": lambda: contender("b")}, rounds=3, progress=told.append)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert {name: len(of_one) for name, of_one in samples.items()} == {"a": 3, "b": 3}
    assert told[0] == "round 1 of 3: a"


def test_a_summary_is_the_median_and_the_worst_maximum() -> None:
    rounds = [sample(100), sample(900), Sample(20, 200, 1.0, Latency(1.0, 2.0, 99.0))]
    summary = summarize(rounds)
    assert (summary["records_per_s"], summary["bytes_per_s"]) == (20, 200)
    assert summary["latency_ms"] == {"p50": 1.0, "p99": 2.0, "max": 99.0}
    assert len(summary["rounds"]) == 3


def test_ratios_are_formed_within_a_round() -> None:
    # The disk was ten times slower in the second round; ratios of medians over other rounds would see that.
    log = [sample(50, 2.0), sample(5, 20.0), sample(40, 3.0)]
    ceiling = [sample(100, 1.0), sample(10, 10.0), sample(100, 1.0)]
    got = ratios(log, ceiling)
    assert (got["rate"], got["latency_p50"]) == (0.5, 2.0)
    assert got["rounds"] == {"rate": [0.5, 0.5, 0.4], "latency_p50": [2.0, 2.0, 3.0]}
    assert set(ratios(log, ceiling, with_latency=False)) == {"rate", "rounds"}


def test_the_table_shows_ratios_only_where_there_are_some() -> None:
    def shown(contenders: dict[str, dict[str, object]]) -> str:
        output = io.StringIO()
        Console(file=output, width=160).print(rate_table("title", contenders))
        return output.getvalue()

    bare = summarize([sample(1_000_000)])
    assert "rate / ceiling" not in shown({"bare": bare})
    both = shown({"bare": bare, "log": bare | {"ratios": {"rate": 0.77, "latency_p50": 1.23}}})
    assert "rate / ceiling" in both
    assert "0.77" in both
    assert "1.23" in both
