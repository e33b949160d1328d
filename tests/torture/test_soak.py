"""A soak: a tiny one from its first round to its verdict, and the verdict by itself."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.cli.command import COMMAND, environment

from ithaca.torture.soak.picture import draw
from ithaca.torture.soak.plan import Counts
from ithaca.torture.soak.run import SoakOptions, SoakOutcome, report, steps_of
from ithaca.torture.soak.subject import SEGMENT_BYTES
from ithaca.torture.soak.verdict import Round, figures
from ithaca.torture.soak.work import PART_RECORDS, RECORD_BYTES

PNG = b"\x89PNG"


def flat(number: int) -> Round:
    """After each round all is as it was."""
    return Round(number, number, 64 << 20, 100, 50.0, 2.0, 1.0, 50.0, 2.0, 1.0, 1, 10)


@pytest.mark.timeout(120)
@pytest.mark.campaign
def test_a_tiny_soak_does_what_it_says(tmp_path: Path) -> None:
    picture = tmp_path / "soak.png"
    parts, segments, restarts, changes = 20, 3, 3, 1
    command = [*COMMAND, "torture", "--soak", "--json", "--rounds", "2", "--parts", str(parts)]
    command += ["--segments", str(segments), "--restarts", str(restarts), "--leader-changes", str(changes)]
    command += ["--dir", str(tmp_path / "soaks"), "--plot", str(picture)]
    done = subprocess.run(command, capture_output=True, env=environment(), timeout=120)
    assert done.returncode in (0, 1), done.stderr.decode()
    said = json.loads(done.stdout)
    assert said["failure"] is None
    assert done.returncode == (0 if said["verdict"] == "green" else 1)
    assert [each["number"] for each in said["rounds"]] == [1, 2]
    records = parts * PART_RECORDS + segments * (SEGMENT_BYTES // RECORD_BYTES) + restarts + changes
    assert said["rounds"][-1]["tail"] > records
    assert {each["name"] for each in said["figures"]} == {each.name for each in figures([flat(1)])}
    assert picture.read_bytes().startswith(PNG)
    assert list((tmp_path / "soaks").iterdir()) == []


def test_rounds_share_all_of_the_work() -> None:
    counts = Counts(parts=1001, segments=7, restarts=0, leader_changes=99)
    shares = [counts.of_round(number, 10) for number in range(10)]
    assert sum(each.parts for each in shares) == 1001
    assert sum(each.segments for each in shares) == 7
    assert sum(each.leader_changes for each in shares) == 99
    assert {each.restarts for each in shares} == {0}
    assert steps_of(SoakOptions(Counts(parts=17, segments=9, restarts=2, leader_changes=1), rounds=1)) == 2 + 2 + 2 + 1


def test_what_stays_as_it_was_is_green() -> None:
    rounds = [flat(number) for number in range(1, 21)]
    outcome = SoakOutcome({}, 1.0, rounds, figures(rounds))
    assert outcome.is_green
    assert {each["growth"] for each in report(outcome)["figures"]} == {0.0}


@pytest.mark.parametrize(
    ("figure", "aged"),
    [
        ("memory", lambda one: replace(one, memory_bytes=one.memory_bytes * 5 // 4)),
        ("descriptors", lambda one: replace(one, descriptors=one.descriptors + 21)),
        ("start of a replica", lambda one: replace(one, start_ms=one.start_ms * 1.21)),
        ("append", lambda one: replace(one, append_ms=one.append_ms * 1.3)),
        ("read", lambda one: replace(one, read_ms=one.read_ms * 1.3)),
    ],
)
def test_what_has_grown_is_named(figure: str, aged: Callable[[Round], Round]) -> None:
    rounds = [flat(number) if number < 15 else aged(flat(number)) for number in range(1, 21)]
    found = figures(rounds)
    assert [each.name for each in found if each.has_grown] == [figure]
    assert report(SoakOutcome({}, 1.0, rounds, found))["verdict"] == "red"


def test_a_machine_that_has_become_slow_is_not_blamed_on_the_cluster() -> None:
    slow = [replace(flat(n), append_ms=9.0, fresh_append_ms=9.0, read_ms=4.0, fresh_read_ms=4.0) for n in range(11, 21)]
    assert not any(each.has_grown for each in figures([*(flat(number) for number in range(1, 11)), *slow]))


def test_one_bad_round_does_not_decide() -> None:
    rounds = [flat(number) for number in range(1, 21)]
    rounds[-1] = replace(rounds[-1], memory_bytes=1 << 40, read_ms=1e6)
    assert not any(each.has_grown for each in figures(rounds))


def test_a_soak_that_ended_early_is_red() -> None:
    rounds = [flat(1), flat(2)]
    assert not SoakOutcome({}, 1.0, rounds, figures(rounds), failure="in round 3: no more descriptors").is_green


def test_one_round_can_be_drawn(tmp_path: Path) -> None:
    draw([flat(1)], tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(PNG)
