"""Replicas on the log of a directory: snapshots, trimming, replicas that differ, ends."""

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.objects.machines import Counter

import ithaca
import ithaca.aio
from ithaca.model.errors import (
    Corrupt,
    DeadlineExceeded,
    Diverged,
    InvalidInput,
    LogClosed,
    Overloaded,
    Trimmed,
    WrongObject,
    WrongVersion,
)
from ithaca.model.records import KeyFilter
from ithaca.objects import Settings, Store, Versions, aio, current, replicate
from ithaca.objects.names import CATALOGUE_KEY, command_key


def added(log: ithaca.Log, count: int, **settings: object) -> int:
    """How many commands a replica has to play that opens after so many more were proposed."""
    with replicate(log, Counter, name="it", **settings) as counter:  # type: ignore[arg-type]
        for _ in range(count):
            counter.propose(Counter.add, 1)
    return count


@pytest.fixture
def log(tmp_path: Path) -> "Iterator[ithaca.Log]":
    with ithaca.open(tmp_path / "log") as log:
        yield log


# Snapshots


def test_a_start_from_a_snapshot_plays_what_is_behind_it(
    log: ithaca.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[int] = []

    def counted(counter: Counter, amount: int) -> int:
        played.append(1)
        counter.value += amount
        return counter.value

    counted.__name__ = "add"
    monkeypatch.setattr(Counter, "add", counted)
    for place in (tmp_path / "snapshots", "log"):
        added(log, 25, snapshots=place, snapshot_commands=10)
        played.clear()
        with replicate(log, Counter, name="it", snapshots=place) as again:
            value, count = again.local(lambda state: state.value), again._machine.count
        assert value == count
        assert len(played) <= 10, place
    assert value == 50


def test_a_snapshot_when_it_is_asked_for(log: ithaca.Log, tmp_path: Path) -> None:
    with replicate(log, Counter, name="it", snapshots=tmp_path / "s") as counter:
        counter.propose(Counter.add, 3)
        position = counter.snapshot()
        counter.propose(Counter.add, 4)
        assert counter.as_of(position).value == 3 or counter.as_of(position - 1).value == 3
    assert len(list((tmp_path / "s").iterdir())) == 1
    with replicate(log, Counter, name="it") as counter, pytest.raises(InvalidInput, match="keeps no snapshots"):
        counter.snapshot()


def test_a_damaged_snapshot_is_named(log: ithaca.Log, tmp_path: Path) -> None:
    added(log, 5, snapshots=tmp_path / "s", snapshot_commands=5)
    (file,) = (tmp_path / "s").iterdir()
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(Corrupt, match="delete it to start from an older one") as caught:
        replicate(log, Counter, name="it", snapshots=tmp_path / "s").open()
    assert caught.value.file == str(file)
    file.unlink()
    with replicate(log, Counter, name="it", snapshots=tmp_path / "s") as counter:
        assert counter.local(lambda state: state.value) == 5


def test_a_snapshot_of_another_object_and_of_another_version(log: ithaca.Log, tmp_path: Path) -> None:
    added(log, 5, snapshots=tmp_path / "s", snapshot_commands=5)
    with pytest.raises(WrongObject, match="give each object a directory of its own"):
        replicate(log, Counter, name="other", snapshots=tmp_path / "s").open()
    with pytest.raises(WrongVersion, match="applies version 2"):
        replicate(log, Counter, name="it", snapshots=tmp_path / "s", version=2).open()
    with replicate(log, Counter, name="it", snapshots=tmp_path / "s", version=2, accepts=[1]) as counter:
        assert counter.propose(Counter.add, 1) == 6
    with pytest.raises(WrongVersion, match="is of version 2 of Counter, and this program applies version 1"):
        replicate(log, Counter, name="it").open()


# Trimming


@pytest.mark.parametrize("place", ["log", "directories"])
def test_what_all_replicas_have_snapshotted_is_trimmed(log: ithaca.Log, tmp_path: Path, place: str) -> None:
    def places(name: str) -> str:
        return "log" if place == "log" else str(tmp_path / name)

    both = ["a", "b"]
    with (
        replicate(log, Counter, name="it", replica="a", retain=both, snapshots=places("a")) as one,
        replicate(log, Counter, name="it", replica="b", retain=both, snapshots=places("b")) as other,
    ):
        for _ in range(10):
            one.propose(Counter.add, 1)
        reached = one.snapshot()
        assert log.first() == 1, "the other has none yet"
        other.sync()
        other.propose(Counter.add, 1)
        other.snapshot()
        assert log.first() == reached
        one.propose(Counter.add, 1)
    with replicate(log, Counter, name="it", snapshots=places("a")) as again:
        assert again.local(lambda state: state.value) == 12
    with pytest.raises(Trimmed, match="start from a snapshot of another"):
        replicate(log, Counter, name="it").open()
    with replicate(log, Counter, name="new") as new:
        assert new.propose(Counter.add, 1) == 1


def test_an_object_that_has_no_snapshot_keeps_its_records(log: ithaca.Log) -> None:
    with replicate(log, Counter, name="kept") as kept, Versions(log) as pages:
        pages.put(b"home", b"1")
        with replicate(log, Counter, name="it", replica="a", retain=["a"], snapshots="log") as counter:
            for _ in range(10):
                counter.propose(Counter.add, 1)
                kept.propose(Counter.add, 1)
            counter.snapshot()
        assert pages.get(b"home") == b"1"
    with replicate(log, Counter, name="kept") as again:
        assert again.local(lambda state: state.value) == 10


def test_an_object_announces_itself_once(log: ithaca.Log) -> None:
    log.append(b"of somebody else")
    for _ in range(3):
        replicate(log, Counter, name="it").open().close()
    assert len(list(log.read_range(1, where=KeyFilter.equals(CATALOGUE_KEY)))) == 1


# Replicas that differ


class Lottery:
    def __init__(self) -> None:
        self.drawn = 0

    def draw(self) -> None:
        self.drawn = random.getrandbits(60)

    def fair(self) -> int:
        return current().random().getrandbits(30)


def test_replicas_that_differ_are_stopped_and_the_command_is_named(log: ithaca.Log) -> None:
    with (
        replicate(log, Lottery, name="it", check_commands=4) as one,
        replicate(log, Lottery, name="it", check_commands=4) as other,
    ):
        assert one.propose(Lottery.fair) != one.propose(Lottery.fair)
        one.propose(Lottery.draw)
        at = one.position - 1
        with suppress(Diverged):
            for _ in range(200):
                one.propose(Lottery.fair)
                other.sync()
        while not (isinstance(one.failure, Diverged) and one.failure.position):
            log.append(b"", key=b"time passes")  # until the other's trace has come
        assert (one.failure.position, one.failure.method) == (at, "draw")
        with pytest.raises(Diverged, match=f"the command draw at position {at}"):
            one.read(lambda state: state.drawn)
    with replicate(log, Lottery, name="it", checks="off") as blind:
        blind.propose(Lottery.fair)


def test_replicas_that_are_told_to_warn_go_on(log: ithaca.Log, caplog: pytest.LogCaptureFixture) -> None:
    with (
        replicate(log, Lottery, name="it", check_commands=4, checks="warn") as one,
        replicate(log, Lottery, name="it", check_commands=4, checks="warn") as other,
    ):
        one.propose(Lottery.draw)
        for _ in range(20):
            one.propose(Lottery.fair)
            other.sync()
        one.sync()
    assert any("not deterministic" in message for message in caplog.messages)


# Ends


def test_whoever_waits_when_the_replica_is_closed_is_told(log: ithaca.Log) -> None:
    counter = replicate(log, Counter, name="it").open()
    waiting = threading.Event()
    told: list[BaseException] = []

    def wait() -> None:
        waiting.set()
        try:
            counter.read(lambda state: state.value, at_least=10**9)
        except LogClosed as error:
            told.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    counter.close()
    counter.close()
    thread.join()
    assert told
    assert "not open" in repr(counter) or "failed" in repr(counter)


def test_one_that_was_closed_is_not_opened_again(log: ithaca.Log) -> None:
    counter = replicate(log, Counter, name="it").open()
    counter.close()
    with pytest.raises(LogClosed):
        counter.open()


def test_one_that_only_reads_appends_nothing_whatever_it_finds(log: ithaca.Log) -> None:
    with (
        replicate(log, Lottery, name="it", check_commands=4) as one,
        replicate(
            log, Lottery, name="it", check_commands=4, read_only=True, snapshots="log", snapshot_commands=1
        ) as other,
    ):
        one.propose(Lottery.draw)
        with suppress(Diverged):
            for _ in range(200):
                one.propose(Lottery.fair)
                other.sync()
        while not isinstance(other.failure, Diverged):
            log.append(b"", key=b"time passes")
        checks = list(log.read_range(1, where=KeyFilter.equals(command_key("it"))))
        assert not [record for record in checks if record.value[1:3] == b"\xa1t"], "no trace"


def test_a_read_that_takes_too_long(log: ithaca.Log) -> None:
    with replicate(log, Counter, name="it") as counter:
        with pytest.raises(DeadlineExceeded, match="waiting for"):
            counter.read(lambda state: state.value, at_least=10**9, timeout=0.02)
        assert counter._waiting == []


def test_too_many_commands_at_once_are_refused(log: ithaca.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ithaca.objects.shared.replica.OBJECT_PROPOSALS_MAX", 0)
    with replicate(log, Counter, name="it") as counter, pytest.raises(Overloaded):
        counter.propose(Counter.add, 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"retain": ["a"]},
        {"retain": ["a"], "snapshots": "log", "replica": "b"},
        {"retain": "a", "snapshots": "log", "replica": "a"},
        {"checks": "perhaps"},
        {"check_commands": 0},
        {"snapshot_commands": 0},
    ],
)
def test_settings_that_mean_nothing(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        Settings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a/b", "x" * 201])
def test_names_that_cannot_be(log: ithaca.Log, name: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        Store(log, name)


def test_the_context_is_for_commands() -> None:
    with pytest.raises(InvalidInput, match="no command is being applied"):
        current()


# Awaited


async def test_the_awaited_twin(tmp_path: Path) -> None:
    async with ithaca.aio.open(tmp_path / "log") as log, aio.replicate(log, Counter, snapshots=tmp_path / "s") as one:
        results = await asyncio.gather(*(one.propose(Counter.add, 1) for _ in range(20)))
        assert sorted(results) == list(range(1, 21))
        proposal = await one.submit("add", 5)
        assert await proposal.result() == 25
        position = await one.snapshot()
        async with aio.replicate(log, Counter, snapshots=tmp_path / "s") as other:
            assert await other.read(lambda state: state.value) == 25
            assert (await other.as_of(position - 1)).value == 25
            with pytest.raises(LookupError):
                await other.propose(Counter.fail, "x")
        async with aio.Store(log) as store, aio.Versions(log) as pages:
            await store.put(b"a", b"1")
            assert await store.get(b"a") == b"1"
            version = await pages.put(b"p", b"2")
            assert await pages.get(b"p", as_of=version.position) == b"2"
    with pytest.raises(LogClosed):
        await one.propose(Counter.add, 1)


class Selfish:
    replica: Any = None

    def __init__(self) -> None:
        self.value = 0

    def ask(self) -> int:
        return int(Selfish.replica.local(lambda state: state.value))


def test_a_command_or_a_query_that_calls_its_own_replica_is_refused(log: ithaca.Log) -> None:
    """It would wait for itself."""
    with replicate(log, Selfish, name="it") as selfish:
        Selfish.replica = selfish
        with pytest.raises(InvalidInput, match="may not call it itself"):
            selfish.propose(Selfish.ask)
        with pytest.raises(InvalidInput, match="may not call it itself"):
            selfish.local(lambda state: selfish.propose(Selfish.ask))
        assert selfish.local(lambda state: state.value) == 0
