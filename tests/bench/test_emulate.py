"""Emulated shards: how they grow, report and hear, and one tiny run against a real ordering layer."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import typer

from ithaca.bench.emulation.emulate import EmulateSettings, run_emulate
from ithaca.bench.emulation.links import split_frames
from ithaca.bench.emulation.orderers import ordering_layer
from ithaca.bench.emulation.plan import Upwards
from ithaca.bench.emulation.process import emulate
from ithaca.bench.emulation.shards import Durations, EmulatedShard, Growth
from ithaca.bench.server_processes import cpu_s
from ithaca.cli.bench.emulate import parse_counts
from ithaca.client.asking import ask_status
from ithaca.engines.scalog.messages.reporting import Join, News, ReportIs
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.model.cut import LaneRun, ShardCut
from ithaca.model.errors import Corrupt, InvalidInput, ProtocolError
from ithaca.model.limits import REPORTS_OUTSTANDING_MAX, RUNS_SYNC_CUTS, RUNS_SYNC_S
from ithaca.protocol.codec import decode_message, encode_message


def growing(records_per_s: float = 100.0) -> EmulatedShard:
    shard = EmulatedShard(7)
    shard.grow(Growth(records_per_s, start_s=0.0, stop_s=10.0))
    return shard


def cut(shard: EmulatedShard, number: int, lsn: int, count: int) -> ShardCut:
    """A cut that orders so many records of both lanes."""
    runs = tuple(LaneRun(lane, lsn, 1 + 2 * lsn + place * count, count) for place, lane in enumerate(shard.lanes))
    return ShardCut(shard.shard, number, 1 + 2 * (lsn + count), 0, runs)


# Growing


def test_both_replicas_report_the_same_sample() -> None:
    shard = growing()
    assert shard.take_sample(1.0)
    one, other = (replica.report(now) for replica, now in zip(shard.replicas, (1.0, 1.5), strict=True))
    assert one.lengths == other.lengths == tuple((lane, 100) for lane in shard.lanes)
    assert (one.replica, other.replica) == (0, 1)


def test_a_sample_is_taken_only_of_something_new() -> None:
    shard = growing(1.0)
    assert shard.take_sample(1.0)
    assert not shard.take_sample(1.9)
    assert shard.grows_s() == 2.0
    assert shard.take_sample(2.0)
    assert shard.lengths == (2, 2)


def test_growth_ends_and_goes_on_from_there_in_the_next_turn() -> None:
    shard = growing()
    shard.take_sample(99.0)
    assert shard.lengths == shard.final == (1000, 1000)
    assert shard.grows_s() is None
    shard.grow(Growth(1.0, start_s=100.0, stop_s=105.0))
    assert shard.final == (1005, 1005)
    assert shard.grows_s() == 101.0


# Hearing


def test_a_report_is_covered_by_the_cut_that_orders_all_of_it() -> None:
    shard = growing()
    replica = shard.replicas[1]
    shard.take_sample(1.0)
    replica.report(1.0)
    assert replica.hear(cut(shard, 1, 0, 60), 1.25) == []
    assert replica.hear(ShardCut(shard.shard, 2, 121, 0), 1.5) == []
    assert replica.hear(cut(shard, 3, 60, 40), 2.0) == [1.0]
    assert not replica.waiting
    assert not replica.is_done


def test_one_cut_covers_all_reports_that_wait_and_then_more_may_be_sent() -> None:
    shard = growing()
    replica = shard.replicas[0]
    for now in range(1, REPORTS_OUTSTANDING_MAX + 1):
        assert replica.may_report
        shard.take_sample(now)
        replica.report(now)
    assert not replica.may_report
    took = replica.hear(cut(shard, 1, 0, 100 * REPORTS_OUTSTANDING_MAX), 10.0)
    assert took == [10.0 - now for now in range(1, REPORTS_OUTSTANDING_MAX + 1)]
    assert replica.may_report


@pytest.mark.parametrize("lsn", [50, 150])
def test_records_that_are_ordered_twice_or_left_out_are_noticed(lsn: int) -> None:
    shard = growing()
    replica = shard.replicas[0]
    replica.hear(cut(shard, 1, 0, 100), 1.0)
    with pytest.raises(Corrupt, match="cut 2 goes on"):
        replica.hear(cut(shard, 2, lsn, 100), 1.0)


def test_a_replica_is_done_when_all_that_it_grows_to_is_ordered() -> None:
    shard = growing()
    replica = shard.replicas[0]
    replica.hear(cut(shard, 1, 0, 999), 11.0)
    assert not replica.is_done
    replica.hear(cut(shard, 2, 999, 1), 11.0)
    assert replica.is_done


def test_runs_are_told_as_synced_after_a_while_or_after_many_cuts() -> None:
    shard = growing()
    replica = shard.replicas[0]
    replica.hear(cut(shard, 1, 0, 1), 1.0)
    replica.hear(cut(shard, 2, 1, 1), 1.05)
    assert replica.runs_cut == 0
    replica.hear(cut(shard, 3, 2, 1), 1.2)
    assert replica.runs_cut == 3
    replica.hear(ShardCut(shard.shard, 4, 7, 0), 1.2)
    assert replica.runs_cut == 4, "nothing of this shard waits to be synced"
    for number in range(5, 5 + RUNS_SYNC_CUTS):
        replica.hear(cut(shard, number, number - 2, 1), 1.2)
    assert replica.runs_cut == 4 + RUNS_SYNC_CUTS
    shard.take_sample(2.0)
    assert replica.report(2.0).runs_cut == 4 + RUNS_SYNC_CUTS


def test_runs_are_told_as_synced_after_a_while_when_no_cut_comes_any_more() -> None:
    """As happens when too many cuts wait for that: the report that is repeated says it."""
    shard = growing()
    replica = shard.replicas[0]
    shard.take_sample(1.0)
    replica.hear(cut(shard, 1, 0, 1), 1.0)
    assert replica.report(1.0 + RUNS_SYNC_S / 2).runs_cut == 0
    assert replica.report(1.0 + RUNS_SYNC_S).runs_cut == 1


# Figures


def test_durations_of_several_emulators_add_up() -> None:
    slow, quick = Durations(), Durations()
    for _ in range(90):
        quick.add(0.001)
    for _ in range(10):
        slow.add(1.0)
    quick.join(slow)
    assert quick.total == 100
    assert quick.percentile_ms(50) == pytest.approx(1, rel=0.02)
    assert quick.percentile_ms(99) == pytest.approx(1000, rel=0.02)


def test_durations_out_of_bounds_count_as_the_least_and_the_most() -> None:
    durations = Durations()
    durations.add(0.0)
    durations.add(1e12)
    assert durations.counts[0] == durations.counts[-1] == 1


def test_the_cpu_of_a_process_is_counted() -> None:
    before = cpu_s(os.getpid())
    while cpu_s(os.getpid()) == before:
        pass
    assert 0 < cpu_s(os.getpid()) - before < 10


def test_more_shards_than_there_are_connections_for_are_refused() -> None:
    with pytest.raises(InvalidInput, match="6000 connections"):
        EmulateSettings(shards=(6, 3000), replicas_per_connection=1)


# Frames


def test_frames_are_split_wherever_they_are_cut() -> None:
    shard = growing()
    shard.take_sample(1.0)
    messages = [Join(1, 0, 1), ReportIs(Report(*shard.replicas[0].report(1.0))), News((cut(shard, 1, 0, 100),))]
    data = b"".join(b"".join(encode_message(message, correlation=5)) for message in messages)
    for place in range(len(data)):
        first, rest = split_frames(data[:place])
        second, left = split_frames(rest + data[place:])
        assert [decode_message(frame).message for frame in first + second] == messages
        assert left == b""


def test_a_frame_of_an_impossible_length_is_refused() -> None:
    with pytest.raises(ProtocolError, match="3 bytes long"):
        split_frames(b"\x03" + bytes(31))


# A run


@pytest.mark.parametrize(("replicas_per_connection", "report_interval_s"), [(1, 0.0), (5, 0.02)])
def test_every_emulated_record_is_ordered_exactly_once(
    tmp_path: Path, replicas_per_connection: int, report_interval_s: float
) -> None:
    settings = EmulateSettings(
        shards=(6,),
        scales=(1, 10),
        records_per_s=1000,
        report_interval_s=report_interval_s,
        seconds=0.5,
        rounds=1,
        orderers=1,
        emulators=2,
        replicas_per_connection=replicas_per_connection,
    )
    told: list[str] = []
    report = run_emulate(tmp_path / "bench", settings, told.append)
    assert [row["failed"] for row in report["rows"] if "failed" in row] == []
    assert [(row["shards"], row["scale"]) for row in report["rows"]] == [(6, 1), (6, 10)]
    for row in report["rows"]:
        # Each replica checks that no run is left out or told twice; here, that nothing else was ordered.
        assert row["tail"] == 1 + row["records_ordered"]
        assert row["records_ordered"] == pytest.approx(6 * (1000 + 10_000), abs=24), "a second of growth for each scale"
        assert row["cuts_per_s"] > 0
        assert 0 < row["latency_ms"]["p50"] <= row["latency_ms"]["p99"]
        assert row["received_bytes_per_s"] > 0
        assert row["arithmetic"]["records_per_s"] == 90_000
    assert any("round 1 of 1" in text for text in told)
    assert list(tmp_path.iterdir()) == []
    assert multiprocessing.active_children() == []


def test_reports_go_through_aggregators(tmp_path: Path) -> None:
    settings = EmulateSettings(
        shards=(6,),
        records_per_s=1000,
        seconds=0.5,
        rounds=1,
        orderers=1,
        replicas_per_connection=3,
        aggregators=(0, 2),
    )
    report = run_emulate(tmp_path / "bench", settings, lambda text: None)
    assert [row["failed"] for row in report["rows"] if "failed" in row] == []
    without, through = report["rows"]
    assert (without["aggregators"], without["leader_connections"], without["aggregator_cpu"]) == (0, 4, 0)
    assert (through["aggregators"], through["leader_connections"]) == (2, 2)
    assert through["aggregator_cpu"] > 0
    for row in report["rows"]:
        assert row["tail"] == 1 + row["records_ordered"]
        assert row["cuts_per_s"] > 0


def test_every_lane_is_opened_although_other_shards_can_order_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then whoever joins first of a shard gets no lane at first."""
    monkeypatch.setattr("ithaca.bench.emulation.process.JOINED_TOGETHER", 1)
    with ordering_layer(tmp_path / "layer", orderers=1, order_interval_us=0) as layer, ThreadPoolExecutor() as threads:
        leader = asyncio.run(layer.register(3))
        ours, theirs = multiprocessing.Pipe()
        emulator = threads.submit(emulate, theirs, Upwards(leader, {}, layer.file.engine), range(3), 1)
        with ours:
            assert ours.poll(60)
            assert ours.recv() == "opened"
            shards = asyncio.run(ask_status(leader, None))["shards"]
            assert [replica["open"] for shard in shards for replica in shard["replicas"]] == [True] * 6
        assert isinstance(emulator.exception(), EOFError), "it ends when nobody asks any more"


@pytest.mark.parametrize("text", ["", "-1", "1,,2", "two", "0.5"])
def test_counts_of_aggregators_that_are_none_are_refused(text: str) -> None:
    assert parse_counts("0, 2", least=0) == (0, 2)
    with pytest.raises(typer.BadParameter, match="whole numbers from 0 on"):
        parse_counts(text, least=0)


def test_aggregators_make_room_for_more_connections() -> None:
    assert EmulateSettings(shards=(3000,), replicas_per_connection=1, aggregators=(2,)).aggregators == (2,)


def test_an_interrupted_run_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "ithaca", "bench", "emulate", "--shards", "6", "--seconds", "600"]
    with subprocess.Popen(
        [*command, "--orderers", "1", "--dir", str(tmp_path / "bench")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as bench:
        assert bench.stdout is not None
        while "round 1 of 3" not in (line := bench.stdout.readline()):
            assert line, "the run ended before it began"
        os.killpg(bench.pid, signal.SIGINT)
        bench.communicate(timeout=60)
    assert bench.returncode == 130
    assert list(tmp_path.iterdir()) == []
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(os.fsencode(tmp_path) in command for command in commands)
