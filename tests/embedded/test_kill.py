"""kill -9 in the middle of appends, round after round on one directory: nothing acknowledged is ever lost."""

import os
import random
import signal
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.embedded.children import started
from tests.embedded.numbered import Numbered, decode

import ithaca
from ithaca.model.interface import Log

ACKS_MAX = 150
TRIM_EVERY = 5
KEEP_RECORDS = 400
SEGMENT_BYTES = 256 << 10
"""Small, so that kills hit rolling and recycled segments too."""


class Ack(NamedTuple):
    writer: int
    batch: int
    position: int
    rows: int


class History:
    """What is known to be in the log. A record that was read once must stay, acknowledged or not."""

    def __init__(self) -> None:
        self.numbers: dict[int, Numbered] = {}
        self.acks: list[Ack] = []
        self.tail = 1

    def check_new(self, log: Log, acks: list[Ack]) -> None:
        """Read what this round left behind, and hold it against what was acknowledged."""
        new = {record.position: decode(record.value) for record in log.read_range(self.tail)}
        assert list(new) == list(range(self.tail, log.tail()))
        assert not set(self.numbers.values()) & set(new.values()), "a record is there twice"
        assert len(set(new.values())) == len(new), "a record is there twice"
        self.numbers |= new
        self.tail = log.tail()
        self.acks += acks
        for ack in acks:
            expected = [Numbered(ack.writer, ack.batch, row, ack.rows) for row in range(ack.rows)]
            found = [self.numbers.get(position) for position in range(ack.position, ack.position + ack.rows)]
            assert found == expected, f"{ack} was acknowledged"
        check_batches(new)

    def check_all(self, log: Log) -> None:
        """Every record that was not trimmed is where it was, and the session has no gap."""
        kept = {record.position: decode(record.value) for record in log.read_range(log.first())}
        assert kept == {position: number for position, number in self.numbers.items() if position >= log.first()}
        in_session = [number.batch for _, number in sorted(self.numbers.items()) if number.writer == 0]
        assert in_session == list(range(1, len(in_session) + 1))
        assert log.session("numbered").next_seq == len(in_session) + 1


def check_batches(new: dict[int, Numbered]) -> None:
    """Batches are whole and contiguous, and each writer's come in order, without a gap."""
    batches: dict[int, list[int]] = defaultdict(list)
    for position, number in new.items():
        if number.row == 0:
            whole = [number._replace(row=row) for row in range(number.rows)]
            assert [new.get(position + row) for row in range(number.rows)] == whole, "a batch is torn"
            batches[number.writer].append(number.batch)
    assert sum(new[position].rows for position in new if new[position].row == 0) == len(new)
    for writer, found in batches.items():
        first = found[0] if writer == 0 else 1
        assert found == list(range(first, first + len(found))), f"writer {writer} is out of order"


def run_and_kill(directory: Path, round_number: int, acks_wanted: int) -> list[Ack]:
    """Let a child append, kill it after so many acks (below 0: while it is opening), return all its acks."""
    with started("writer", directory, round_number) as child:
        child.expect("opening")
        acks = []
        if acks_wanted >= 0:
            child.expect("open")
            acks = [child.line() for _ in range(acks_wanted)]
        os.kill(child.process.pid, signal.SIGKILL)
        # What it said before it died counts too.
        acks += [line for line in child.stdout.read().splitlines() if line != "open"]
        child.process.wait()
    return [Ack(*map(int, line.split())) for line in acks]


def kill_rounds(directory: Path, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    history = History()
    for round_number in range(1, rounds + 1):
        acks = run_and_kill(directory, round_number, rng.randint(-ACKS_MAX // 10, ACKS_MAX))
        with ithaca.open(directory) as log:
            history.check_new(log, acks)
            if round_number % TRIM_EVERY == 0:
                log.trim(max(log.first(), log.tail() - KEEP_RECORDS))
                history.check_all(log)
    with ithaca.open(directory) as log:
        history.check_all(log)
    assert len(history.acks) > rounds, "too few appends were acknowledged to say anything"


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITHACA_SEGMENT_BYTES", str(SEGMENT_BYTES))


def test_nothing_acknowledged_is_lost_when_killed(tmp_path: Path) -> None:
    kill_rounds(tmp_path / "log", rounds=25, seed=1)


@pytest.mark.campaign
def test_nothing_acknowledged_is_lost_when_killed_often(tmp_path: Path) -> None:
    kill_rounds(tmp_path / "log", rounds=200, seed=2)
