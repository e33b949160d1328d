"""`ithaca check-history`: sound, violated, no verdict, no history; for people and for programs."""

from pathlib import Path

import pytest
from tests.cli.command import ithaca, json_lines

from ithaca.proof.history import AnyEvent, Append, Final, Plan, Tail, encode

APPEND = Append(id=(7, 0), n=1, inv=1, ret=2, st="ok", pos=1)
DUMP = Final(node="a", runs=((1, ((7, 0),)),))
LATE = Tail(inv=5, ret=6, n=1)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def write(file: Path, *events: AnyEvent) -> None:
    file.write_bytes(b"".join(map(encode, events)))


def test_a_sound_history(file: Path) -> None:
    write(file, APPEND, DUMP)
    assert ithaca("check-history", file).stdout == b"sound: every rule holds for 2 events\n"
    (verdict,) = json_lines(ithaca("check-history", file, "--json").stdout)
    assert verdict == {
        "ok": True,
        "no_verdict": None,
        "events": {"append": 1, "final": 1},
        "found": {},
        "violations": [],
    }


def test_a_violation(file: Path) -> None:
    write(file, APPEND, DUMP, LATE)
    told, summary = ithaca("check-history", file, status=1).stdout.decode().splitlines()
    assert told == (
        "rule 10, real-time: position 1 at 2: its append was acknowledged, and position 1 at 5: a tail was asked for "
        "that ended before"
    )
    assert summary == "violated, by 3 events: 1 of real-time"
    (verdict,) = json_lines(ithaca("check-history", file, "--json", status=1).stdout)
    assert not verdict["ok"]
    assert verdict["found"] == {"real-time": 1}
    (violation,) = verdict["violations"]
    assert (violation["rule"], violation["number"], violation["promise"]) == ("real-time", 10, 3)


def test_no_verdict(file: Path) -> None:
    write(file, Plan(ok_min=2), APPEND, DUMP)
    done = ithaca("check-history", file, status=2)
    assert done.stdout == b"no verdict on 3 events\n"
    assert done.stderr == b"this history proves nothing: 1 appends succeeded, and 2 were to\n"
    (verdict,) = json_lines(ithaca("check-history", file, "--json", status=2).stdout)
    assert verdict["no_verdict"] == "1 appends succeeded, and 2 were to"


def test_a_violation_without_a_verdict_is_a_violation(file: Path) -> None:
    write(file, APPEND, LATE)
    done = ithaca("check-history", file, status=1)
    assert done.stdout.decode().splitlines()[-1] == "violated, by 2 events: 1 of real-time"
    assert done.stderr == b"this history proves nothing: there are no final dumps\n"


def test_a_file_that_is_no_history(file: Path) -> None:
    file.write_bytes(encode(APPEND) + b"hello\n")
    done = ithaca("check-history", file, status=2)
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"ithaca: {file}, line 2: ")


def test_a_file_that_is_not_there(file: Path) -> None:
    assert "does not exist" in ithaca("check-history", file, status=2).stderr.decode()
