"""Whatever a replica, a store or an index of versions is given in place of an argument, it refuses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.nonsense import faults, faults_of

import ithaca
import ithaca.aio
from ithaca.model.errors import InvalidInput
from ithaca.objects import Replica, Settings, Store, Versions, aio, replicate

USUAL: dict[str, Any] = {
    "body": lambda transaction: None,
    "expected": {b"k": None},
    "key": b"k",
    "keys": [b"k"],
    "name": b"k",
    "position": 1,
    "query": len,
    "value": b"v",
    "writes": {b"k": b"v"},
}
INSIDE = frozenset({"begin", "fail", "forget", "fresh", "look", "reach"})
"""What only objects call."""
AT_ONCE = frozenset({"local"})
"""Takes less than a look at its argument, and calls that at once."""


class Counter:
    """The smallest object."""

    def __init__(self) -> None:
        self.value = 0


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ithaca.Log]:
    with ithaca.open(tmp_path / "log") as log:
        log.append(b"x")
        yield log


def test_of_a_store(log: ithaca.Log) -> None:
    with Store(log) as store:
        found = list(faults_of(store, Store, USUAL))
    assert not found, "\n".join(found)


def test_of_versions(log: ithaca.Log) -> None:
    with Versions(log) as versions:
        version = versions.put(b"k", b"v")
        found = list(faults_of(versions, Versions, USUAL | {"version": version}, without=INSIDE))
    assert not found, "\n".join(found)


def test_of_a_replica(log: ithaca.Log) -> None:
    with replicate(log, Counter) as counter:
        found = list(faults_of(counter, Replica, USUAL, without=INSIDE | AT_ONCE))
    assert not found, "\n".join(found)


def test_of_what_makes_them(log: ithaca.Log) -> None:
    usual = {"log": log, "of": Counter}
    assert [*faults(replicate, usual), *faults(Settings, {}), *faults(Store, usual), *faults(Versions, usual)] == []


@pytest.mark.parametrize("wrong", ["x", 5, None])
async def test_a_log_is_one_of_the_same_twin(tmp_path: Path, log: ithaca.Log, wrong: Any) -> None:
    for make in (Store, Versions, lambda log: replicate(log, Counter)):
        with pytest.raises(InvalidInput, match=r"log is .*: use a log of ithaca.open or ithaca.connect"):
            make(wrong)
    with pytest.raises(InvalidInput, match=r"log is <ithaca.Log .*: use a log of ithaca.aio.open or ithaca.aio.conn"):
        aio.Store(log)  # type: ignore[arg-type]


def test_durations_may_be_text(log: ithaca.Log) -> None:
    with replicate(log, Counter, timeout="30s") as counter, Store(log, timeout="1min") as store:
        assert counter.timeout == 30.0
        assert counter.sync(timeout="500ms") == log.tail()
        assert store.sync(timeout="10s") == log.tail()
