"""Whole runs on real processes: green as they are, red when the history is made to lie; nothing is left behind."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.command import COMMAND, environment, ithaca, json_lines
from tests.cli.processes import left_behind

from ithaca.cluster.temporary import Shape
from ithaca.proof.checker import check
from ithaca.proof.dump import dump_replica
from ithaca.proof.history import AnyEvent, Append, Fault, Final, Plan, Read, read_history
from ithaca.storage.disk import OsDisk
from ithaca.torture.crowd import Cast
from ithaca.torture.faults.catalogue import availability
from ithaca.torture.faults.disk import Power
from ithaca.torture.outcome import torture
from ithaca.torture.run import Options

MARKER = "TORTURE_TEST"
"""A variable that every process of a run inherits, so that those which are left can be found."""
RECORDS_MIN = 1000


def tortured(
    home: Path, *arguments: str, status: int = 0, timeout: float = 200
) -> tuple[list[dict[str, Any]], list[AnyEvent]]:
    """Run the command; what it printed, and its history."""
    history = home / "history.jsonl"
    done = subprocess.run(
        [*COMMAND, "torture", "--json", "--dir", str(home / "runs"), "--history", str(history), *arguments],
        capture_output=True,
        timeout=timeout,
        env=environment() | {MARKER: str(home)},
    )
    assert done.returncode == status, (done.stdout.decode(), done.stderr.decode())
    assert left_behind(home) == []
    return json_lines(done.stdout), list(read_history(history))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], list[AnyEvent]]:
    home = tmp_path_factory.mktemp("torture")
    found = tortured(home, "--seconds", "8", "--faults", "kill,pause,partition", "--seed", "274")
    assert list((home / "runs").iterdir()) == [], "a run that is green keeps nothing but its history"
    return found


@pytest.mark.timeout(240)
def test_a_short_run_is_green(run: tuple[list[dict[str, Any]], list[AnyEvent]]) -> None:
    (planned, outcome), events = run
    assert outcome["verdict"] == "green"
    assert outcome["violations"] == []
    assert outcome["acknowledged"] > RECORDS_MIN
    assert {strike["fault"] for strike in planned["plan"]} == {"kill", "pause", "partition"} == set(outcome["faults"])
    assert isinstance(events[0], Plan)
    assert set(outcome["events"]) >= {"append", "read", "tail", "trim", "sub", "deliver", "final", "fault"}
    assert sum(isinstance(event, Final) for event in events) == 4
    assert any(isinstance(event, Read) and event.id is None for event in events), "reads at the tail find nothing"


def without_a_record(events: list[AnyEvent]) -> list[AnyEvent]:
    """One acknowledged record is on no replica."""
    gone = next(event.id for event in reversed(events) if isinstance(event, Append) and event.st == "ok")
    return [
        msgspec.structs.replace(
            event,
            runs=tuple(
                (position, tuple("lost" if each == gone else each for each in ids)) for position, ids in event.runs
            ),
        )
        if isinstance(event, Final)
        else event
        for event in events
    ]


def with_another_position(events: list[AnyEvent]) -> list[AnyEvent]:
    """One receipt says another position than the record has."""
    place = max(place for place, event in enumerate(events) if isinstance(event, Append) and isinstance(event.pos, int))
    receipt = events[place]
    assert isinstance(receipt, Append)
    assert isinstance(receipt.pos, int)
    lie = msgspec.structs.replace(receipt, pos=receipt.pos - 1)
    return [*events[:place], lie, *events[place + 1 :]]


def with_fewer_copies(events: list[AnyEvent]) -> list[AnyEvent]:
    """One replica's disk is gone."""
    place = next(place for place, event in enumerate(events) if isinstance(event, Final) and event.runs)
    return [*events[:place], *events[place + 1 :]]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("falsify", [without_a_record, with_another_position, with_fewer_copies])
def test_a_run_that_went_wrong_is_red(
    run: tuple[list[dict[str, Any]], list[AnyEvent]], falsify: Callable[[list[AnyEvent]], list[AnyEvent]]
) -> None:
    _, events = run
    assert check(events).ok
    assert check(falsify(events)).violations


@pytest.mark.timeout(240)
def test_a_fault_that_did_not_fire_leaves_no_verdict(run: tuple[list[dict[str, Any]], list[AnyEvent]]) -> None:
    _, events = run
    plan = events[0]
    assert isinstance(plan, Plan)
    more = msgspec.structs.replace(plan, faults=plan.faults | {"power": 1})
    reason = check([more, *events[1:]]).no_verdict
    assert reason is not None
    assert "power" in reason


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        (signal.SIGKILL, -signal.SIGKILL),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.campaign),
    ],
)
@pytest.mark.timeout(120)
def test_a_run_that_is_ended_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, status: int) -> None:
    command = [*COMMAND, "torture", "--dir", str(tmp_path / "runs"), "--faults", "kill", "--shards", "1"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | {MARKER: str(tmp_path)},
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        while " s  kill " not in (line := process.stderr.readline()):
            assert line, "the run ended before anything was struck"
        os.kill(process.pid, number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == status, said
    assert "Traceback" not in said
    assert left_behind(tmp_path) == []
    if number is not signal.SIGKILL:
        assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--engine", "paxos"], "the engine 'paxos' is not in this version: use one of scalog"),
        (["--faults", "kill,pauze"], "did you mean pause"),
        (["--orderers", "2"], "use an odd number"),
        (["--masking"], "use 3, 5, 7"),
        (["--faults", "kill", "--orderers", "1", "--replicas", "1"], "within its promises"),
        (["--faults", "power", "--durability", "os"], "nothing is promised through a loss of power"),
        (["--seconds", "1"], "--seconds"),
        (["--users", "--engine", "corfu"], "has no users"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], complaint: str) -> None:
    assert complaint in " ".join(ithaca("torture", *arguments, status=2).stderr.decode().split())


def test_the_list_of_faults() -> None:
    listed = json_lines(ithaca("torture", "--faults", "list", "--json").stdout)
    assert {each["fault"]: each["unavailable"] for each in listed} == availability()
    assert all(each["about"] for each in listed)
    assert b"partition  Servers are cut off" in ithaca("torture", "--faults", "list").stdout


@pytest.mark.campaign
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [101, 102, 103])
def test_long_runs_with_every_fault(tmp_path: Path, seed: int) -> None:
    (_, outcome), _ = tortured(tmp_path, "--seconds", "300", "--seed", str(seed), timeout=1000)
    assert sum(outcome["faults"].values()) >= 34
    assert outcome["acknowledged"] > 300_000


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("faults", ["all", "kill,partition,pause"])
def test_masking_shards_under_every_fault(tmp_path: Path, faults: str) -> None:
    shape = ["--replicas", "3", "--masking", "--orderers", "5", "--shards", "2"]
    tortured(tmp_path, "--seconds", "90", "--seed", "7", "--faults", faults, *shape, timeout=500)


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["scalog", "belfast", "raft"])
@pytest.mark.parametrize("tls", [["--tls"], []], ids=["certificates", "tokens"])
def test_users_under_every_fault(tmp_path: Path, engine: str, tls: list[str]) -> None:
    tortured(tmp_path, "--seconds", "60", "--seed", "24", "--users", "--engine", engine, *tls, timeout=500)


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_a_power_loss_without_syncs_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With durability "os" a loss of power breaks no promise: records must be gone, and the run must see it."""
    reason = Power.unavailable()
    if reason is not None:
        pytest.skip(reason)
    monkeypatch.setattr("ithaca.torture.run.TRIM_AFTER", 1000.0)  # what is missing was not trimmed
    options = Options(20, 1, ("power",), Shape(shards=2, durability="os"), Cast(rate=1000))
    outcome = torture(options, directory=tmp_path, history=None, tell=print, progress=lambda done_s, records: None)
    assert outcome.verdict == "red"
    assert outcome.kept is not None
    assert outcome.history is not None
    events = list(read_history(outcome.history))
    lost_at = next(event.t for event in events if isinstance(event, Fault))
    acknowledged = {
        (event.id[0], event.id[1] + behind)
        for event in events
        if isinstance(event, Append) and event.st == "ok" and event.ret < lost_at
        for behind in range(event.n)
    }
    held: set[object] = set()
    for replica in (Path(outcome.kept) / "kept").glob("shard-*"):
        held.update(each for _, ids in dump_replica(OsDisk(), str(replica), replica.name).runs for each in ids)
    assert held, "what came after the loss is there"
    assert acknowledged - held
