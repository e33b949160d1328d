"""A comparison in which something goes wrong: others go on, the reason is told, and what was missing comes later."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.bench.test_raft_benches import quiet

import ithaca
from ithaca.bench.children import reason
from ithaca.bench.cluster.producers import Plan, Turn
from ithaca.bench.compare.estimate import expected_s
from ithaca.bench.compare.kept import RESULTS, CompareSettings, Kept, missing
from ithaca.bench.compare.open_loop import STAMP, Pace
from ithaca.bench.compare.run import run_compare
from ithaca.bench.compare.system import Running
from ithaca.bench.compare.systems import ithaca_log
from ithaca.bench.compare.systems.ithaca_log import IthacaDirectory, open_directory
from ithaca.bench.compare.systems.local import FileClient, PlainFile, Sqlite, SqliteClient
from ithaca.bench.compare.systems.nats import Flight
from ithaca.bench.compare.work import Client, Fill, Role
from ithaca.bench.compare.workloads import WORKLOADS, Workload
from ithaca.model.errors import InvalidInput, Unavailable

SETTINGS = CompareSettings(seconds=0.2, rounds=1, warm_up_s=0.05)
SMALL = Workload("small", "small", "append", 100)
FOLLOW = Workload("follow", "follow", "follow", 100)


class Broken(Sqlite):
    """Its start fails with an error that is nobody's."""

    name = "broken"

    def run(self, directory: Path, progress: Any) -> Any:
        raise RuntimeError("no configuration | for it")


class Confused(Sqlite):
    """Its clients fail with an error of a library, and its end does, too."""

    name = "confused"

    @contextmanager
    def run(self, directory: Path, progress: Any) -> Iterator[Running]:
        yield Running(ConfusedClient, tuple, "1", cannot_follow="nobody knows where it is")
        raise LookupError("its process is somewhere else")


class ConfusedClient(SqliteClient):
    def __init__(self, role: Role) -> None:
        raise LookupError("no broker has this topic")


def test_a_system_that_fails_is_told_and_what_was_missing_is_measured_later(
    tmp_path: Path,
) -> None:
    told: list[str] = []
    systems = [Broken(), Confused(), PlainFile(), IthacaDirectory()]
    kept = tmp_path / "kept"
    first = run_compare(tmp_path / "data", kept, systems, [SMALL, FOLLOW], SETTINGS, quiet, told.append)
    assert "4 systems, 2 workloads" in told[0]
    assert first["systems"]["broken"]["missing"].startswith("RuntimeError: no configuration | for it (test_compare")
    small, follow = (each["systems"] for each in first["workloads"])
    assert "LookupError: no broker has this topic" in small["confused"]["failed"]
    assert small["plain file"]["records_per_s"] > 0
    assert "ask again" in follow["plain file"]["failed"]
    assert follow["ithaca embedded"]["latency_ms"]["p50"] > 0
    assert sum(count for _, count in follow["ithaca embedded"]["histogram"]) == 20  # a hundred a second
    Broken.run, usual = Sqlite.run, Broken.run  # type: ignore[method-assign]
    try:
        second = run_compare(tmp_path / "data", kept, systems, [SMALL], SETTINGS, quiet)
    finally:
        Broken.run = usual  # type: ignore[method-assign]
    assert second["workloads"][0]["systems"]["broken"]["records_per_s"] > 0
    assert "missing" not in second["systems"]["broken"]
    lines = [msgspec.json.decode(line) for line in (kept / RESULTS).read_bytes().splitlines()]
    assert [(line["workload"]["name"], "broken" in line["systems"]) for line in lines] == [
        ("small", False),
        ("follow", False),
        ("small", True),
    ]
    assert lines[2]["systems"].keys() == {"broken"}  # the others were measured


def test_systems_that_were_not_measured_are_missing_whatever_others_did(tmp_path: Path) -> None:
    kept = Kept(tmp_path, SETTINGS)
    rounds = {"rounds": [{"records_per_s": 90.0}]}
    about = {"kafka": {"durable": "synced", "copies": 2}, "file": {"durable": "synced", "copies": 1}}
    settings = msgspec.to_builtins(SETTINGS)
    line = {"systems": {"kafka": rounds, "file": {"failed": "late"}}, "about": about, "settings": settings}
    assert kept.pace("paced") == 100.0
    kept.add({"workload": {"name": "flight-4kb"}, "batches_per_s": 1.0, **line})
    assert missing(kept, ["flight-4kb", "other"], ["kafka", "file", "nats"]) == {
        "flight-4kb": ["nats"],
        "other": ["kafka", "file", "nats"],
    }
    assert kept.pace("paced") == 30.0
    kept.add({"workload": {"name": "paced"}, "batches_per_s": 20.0, **line})
    assert Kept(tmp_path, SETTINGS).pace("paced") == 20.0  # whoever comes later has the same rate
    assert not Kept(tmp_path, CompareSettings()).measured("flight-4kb")  # other settings


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Unavailable("it is gone"), "it is gone"),
        (OSError(), "OSError"),
        (LookupError("no topic"), "LookupError: no topic"),
        (ExceptionGroup("several", [ExceptionGroup("more", [Unavailable("it was late")])]), "it was late"),
    ],
)
def test_reasons_are_told_in_one_line(error: BaseException, told: str) -> None:
    assert reason(error) == told


def test_an_append_of_ithaca_that_was_refused_is_not_acknowledged(tmp_path: Path) -> None:
    answers: list[str | None] = []
    with ithaca.open(tmp_path / "log") as log:
        pending = log.submit(b"x")
        pending.result()
        ithaca_log.tell(answers.append, pending)
    assert answers == [None]
    ithaca_log.tell(answers.append, Refused())
    assert answers[1] == "it is full"


class Refused(ithaca.Pending):
    def result(self, timeout: Any = None) -> Any:
        raise Unavailable("it is full")

    def done(self) -> bool:
        return True

    def add_done_callback(self, callback: Any) -> None:
        callback(self)


@pytest.mark.parametrize("system", ["sqlite", "file", "ithaca"])
def test_what_was_appended_is_given_up_between_workloads(tmp_path: Path, system: str) -> None:
    clients: dict[str, Callable[[Role], Client]] = {
        "sqlite": partial(SqliteClient, tmp_path / "log"),
        "file": partial(FileClient, tmp_path / "log"),
        "ithaca": partial(open_directory, tmp_path / "log"),
    }
    with clients[system]("append") as client:
        filled = client.fill(Fill(10_000, 16, 160), [[bytes(10_000)] * 16])
        assert client.read_all(filled) == 160
        client.clear()
        again = client.fill(Fill(100, 16, 32), [[bytes(100)] * 16])
        assert client.read_all(again) == 32
        client.clear()
    if system != "ithaca":  # it keeps the file that it writes to
        assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 100_000
    else:
        with ithaca.open(tmp_path / "log") as log:
            assert log.first() == log.tail()


async def test_records_in_flight_count_one_by_one_while_batches_are_slow() -> None:
    """Two batches of four, of which one and a half are answered in time."""
    flight = Flight(Turn(Plan(1, 4, 2), 0.0, float("inf")))
    loop = asyncio.get_running_loop()
    futures = [loop.create_future() for _ in range(8)]
    batches = [flight.batch(0.0, 4), flight.batch(0.0, 4)]
    for number, future in enumerate(futures):
        await flight.room(1)
        future.add_done_callback(batches[number // 4])
    for future in futures[:6]:
        future.set_result(None)
    await flight.room(6)
    appended = flight.appended()
    assert (appended.records, len(appended.durations) // STAMP.size) == (6, 1)
    futures[7].set_exception(InvalidInput("too large"))
    with pytest.raises(InvalidInput, match="too large"):
        await flight.room(8)


def test_a_stamped_value_says_when_it_was_due_and_keeps_its_length() -> None:
    pace = Pace(Turn(Plan(100, 1, 1), 5.0, 6.0), 4.0, stamped=True)
    [value] = pace.batch([[bytes(100)]], 3)
    assert (len(value), STAMP.unpack_from(value)) == (100, (5.75,))
    assert pace.count == 4


def test_the_quick_workloads_of_all_systems_take_less_than_half_an_hour() -> None:
    quick = [workload for workload in WORKLOADS if workload.quick]
    assert 20 * 60 < expected_s(14, quick, 3, 1.5, 1.0) < 28 * 60
