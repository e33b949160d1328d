"""What is said for an append, and for one that is followed: counted on a cluster of its own."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import ithaca
from ithaca.model.interface import Speculation
from ithaca.model.speculation import Confirmed
from ithaca.protocol.codec import Message
from ithaca.runtime.connection import Connection
from ithaca.testing import Cluster

RECORDS = 20


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many messages of each kind were sent, by whomever: servers and clients are in this process."""
    counts: Counter[str] = Counter()
    send = Connection.send

    def counted(connection: Connection, message: Message, *args: object, **named: object) -> None:
        counts[type(message).__name__] += 1
        send(connection, message, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Connection, "send", counted)
    return counts


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("it does not come about")


def confirmed(told: Speculation, position: int) -> None:
    """Take events until what is at this position is confirmed."""
    while not any(isinstance(event, Confirmed) and event.up_to >= position for event in told.take(5)):
        pass


def test_followers_tell_the_primary_what_they_have_synced_only_while_somebody_speculates(
    tmp_path: Path, said: Counter[str]
) -> None:
    with Cluster(tmp_path / "c", shards=2, engine="belfast") as cluster, ithaca.connect(cluster.bootstrap) as log:
        for _ in range(RECORDS):
            log.append(b"before")
        assert (said["LaneSynced"], said["TellSynced"]) == (0, 0)
        with log.speculate(log.tail()) as told:
            last = [log.append(b"meanwhile") for _ in range(RECORDS)][-1]
            confirmed(told, last.position)
            lanes = said["Speculate"]
            assert lanes >= 1, "the first window may have the lane of one shard alone"
            until(lambda: said["TellSynced"] == lanes)  # the follower of each
            until(lambda: said["LaneSynced"] >= lanes)  # it says it at once, and for what is new
        until(lambda: said["TellSynced"] == 2 * lanes)
        synced = said["LaneSynced"]
        for _ in range(RECORDS):
            log.append(b"afterwards")
        assert said["LaneSynced"] <= synced + 2, "what was under way when they were told"


def test_what_streams_have_brought_is_not_read_again(tmp_path: Path, said: Counter[str]) -> None:
    with Cluster(tmp_path / "c", shards=2, engine="belfast") as cluster, ithaca.connect(cluster.bootstrap) as log:
        first = log.append(b"before")
        with log.speculate(first.position) as told:
            confirmed(told, first.position)
            for _ in range(100):  # until the streams are there, and reading has ended
                delivered = said["Deliver"]
                confirmed(told, log.append(b"meanwhile").position)
                time.sleep(0.02)
                if said["Deliver"] == delivered:
                    break
            delivered = said["Deliver"]
            last = [log.append(b"streamed") for _ in range(RECORDS)][-1]
            confirmed(told, last.position)
            assert said["Deliver"] <= delivered + RECORDS // 2, "streams that are late for a moment are made up for"
