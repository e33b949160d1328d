"""A running cluster with damaged disks: readers get every record right or an error by name, and peers repair it."""

import logging
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.cluster.damaged import (
    Image,
    Row,
    copied,
    flip,
    lanes_of,
    make_image,
    read_alone,
    running,
    segments_of,
    small_pages,
)

import ithaca
from ithaca.engines.scalog.storage import replica_meta
from ithaca.model.errors import Corrupt, InvalidInput, LogInUse, Unavailable
from ithaca.model.interface import ClusterLog
from ithaca.storage.raftlog import FILE_NAME
from ithaca.testing import Cluster

CLOSED, OPEN_LAST = "0-1-1", "0-1-2"
"""Lanes that every replica holds: one that was closed long ago, one that was open until the cluster stopped."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with small_pages():
        yield make_image(tmp_path_factory.mktemp("cluster"))


def rows_of(records: Any) -> list[Row]:
    return [(record.position, record.key, record.value) for record in records]


def replica_status(cluster: Cluster, replica: int) -> dict[str, Any]:
    name = f"shard-0-replica-{replica}"
    said = next(server.status for server in cluster.status().servers if server.place.name == name)
    assert said is not None
    return said


def metric(cluster: Cluster, replica: int, found: str) -> float:
    address = cluster.file.replica(0, replica).address
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    matched = re.search(rf'^ithaca_replica_damage_total{{found="{found}"}} (\S+)$', text, re.MULTILINE)
    return float(matched[1]) if matched else 0.0


def check_both_hold(cluster: Cluster, image: Image) -> None:
    """Each replica alone has everything, and then both order and hold what is new."""
    for replica in (0, 1):
        other = f"shard-0-replica-{1 - replica}"
        cluster.stop_server(other)
        assert read_alone(cluster, replica, image.tail) == image.rows
        cluster.start_server(other)
        cluster.wait_healthy()
    with ithaca.connect(cluster.bootstrap) as log:
        assert log.append(b"goes on", key=b"k").position == image.tail
    rows = [*image.rows, (image.tail, b"k", b"goes on")]
    for replica in (0, 1):
        assert read_alone(cluster, replica, image.tail + 1) == rows


# Damage that is there when a replica starts


def last_segment(lane: Path, random: Random) -> None:
    path = segments_of(lane)[-1]
    flip(path, random.randrange(path.stat().st_size - 128), 1 << random.randrange(8))


def torn_segment(lane: Path, random: Random) -> None:
    path = segments_of(lane)[-1]
    path.write_bytes(path.read_bytes()[: random.randrange(path.stat().st_size - 64)])


def runs(lane: Path, random: Random) -> None:
    flip(lane / "runs", random.randrange(16), 1 << random.randrange(8))


def no_segments(lane: Path, random: Random) -> None:
    for path in segments_of(lane):
        path.unlink()


def index_and_synced(lane: Path, random: Random) -> None:
    """Both hold nothing that the segments do not."""
    for path in [*lane.glob("*.idx"), lane / "synced"]:
        if path.stat().st_size:
            flip(path, random.randrange(path.stat().st_size))


STARTS: list[tuple[Callable[[Path, Random], None], str, int]] = [
    (last_segment, CLOSED, 1),
    (torn_segment, OPEN_LAST, 0),
    (runs, CLOSED, 0),
    (no_segments, OPEN_LAST, 1),
]


@pytest.mark.parametrize(("damage", "lane", "replica"), STARTS)
def test_a_lane_that_is_damaged_is_quarantined_and_comes_back_from_the_peer(
    damage: Callable[[Path, Random], None],
    lane: str,
    replica: int,
    image: Image,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    directory = copied(image, tmp_path / "cluster")
    lanes = lanes_of(directory, replica)
    damage(lanes / lane, Random(lane))
    found = {path.name: path.read_bytes() for path in (lanes / lane).iterdir()}
    with caplog.at_level(logging.ERROR), running(directory) as cluster:
        said = [record.getMessage() for record in caplog.records if record.name == "ithaca.replica.disk"]
        assert [f"lane {lane} is damaged" in text and f"kept as {lane}.damaged-1" in text for text in said] == [True]
        damaged = replica_status(cluster, replica)["damaged"]
        assert [(each["lane"], each["kept"], each["repaired"]) for each in damaged] == [
            (lane, f"{lane}.damaged-1", True)
        ]
        assert metric(cluster, replica, "starting") == 1
        check_both_hold(cluster, image)
    kept = {path.name for path in (lanes / f"{lane}.damaged-1").iterdir()}
    assert set(found) <= kept, "nothing of it was deleted"


def test_a_damaged_index_or_synced_file_is_made_again(image: Image, tmp_path: Path) -> None:
    directory = copied(image, tmp_path / "cluster")
    for lane in (CLOSED, OPEN_LAST):
        index_and_synced(lanes_of(directory, 0) / lane, Random(lane))
    with running(directory) as cluster:
        assert replica_status(cluster, 0)["damaged"] == []
        assert read_alone(cluster, 0, image.tail) == image.rows


def test_without_a_peer_positions_are_unavailable_and_never_absent(image: Image, tmp_path: Path) -> None:
    """Until the peer is back; nothing is deleted meanwhile, and the cluster's status names the lane."""
    directory = copied(image, tmp_path / "cluster")
    lane = lanes_of(directory, 0) / CLOSED
    with running(directory) as cluster, ithaca.connect(cluster.bootstrap, timeout=1.5) as log:
        for replica in (1, 0):
            cluster.stop_server(f"shard-0-replica-{replica}")
        last_segment(lane, Random(5))
        cluster.start_server("shard-0-replica-0")
        problems = cluster.status().problems()
        assert f"shard-0-replica-0 lacks lane {CLOSED}, which was damaged, until a peer has sent it" in problems
        with pytest.raises(Unavailable):
            log.read(image.tail - 1)
        with pytest.raises(Unavailable):
            list(log.read_range(1, image.tail))
        assert log.tail() == image.tail
        assert (lane.parent / f"{CLOSED}.damaged-1").is_dir()
        cluster.start_server("shard-0-replica-1")
        cluster.wait_healthy()
        assert rows_of(log.read_range(1)) == image.rows
        assert read_alone(cluster, 0, image.tail) == image.rows


def test_a_damaged_meta_is_refused_and_says_what_to_do(image: Image, tmp_path: Path) -> None:
    directory = copied(image, tmp_path / "cluster")
    with running(directory) as cluster:
        cluster.stop_server("shard-0-replica-0")
        meta = directory / "shard-0-replica-0" / replica_meta.NAME
        flip(meta, 20)
        with pytest.raises(Corrupt, match="move its directory away and start it with an empty one") as caught:
            cluster.start_server("shard-0-replica-0")
        assert caught.value.file == str(meta)
        assert not list(lanes_of(directory, 0).glob("*.damaged-*"))
        (directory / "shard-0-replica-0").rename(directory / "away")
        cluster.start_server("shard-0-replica-0")
        cluster.wait_healthy()
        assert read_alone(cluster, 0, image.tail) == image.rows


# Damage that readers meet


def middle_of_first_segment(directory: Path, replica: int) -> None:
    """Behind what is looked at when a lane is opened: in the records around position 10."""
    path = segments_of(lanes_of(directory, replica) / CLOSED)[0]
    flip(path, path.stat().st_size // 2)


def everything(log: ClusterLog, tail: int) -> list[list[Row]]:
    """The log through each way of reading it."""
    with log.subscribe(start=1) as subscription:
        subscribed = rows_of(next(subscription) for _ in range(tail - 1))
    return [rows_of(log.read(n) for n in range(1, tail)), rows_of(log.read_range(1, tail)), subscribed]


@pytest.mark.parametrize("replica", [0, 1])
def test_readers_of_damaged_records_are_served_by_the_peer_and_a_restart_repairs_them(
    replica: int, image: Image, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = copied(image, tmp_path / "cluster")
    middle_of_first_segment(directory, replica)
    name = f"shard-0-replica-{replica}"
    with running(directory) as cluster:
        assert replica_status(cluster, replica)["damaged"] == []
        with pytest.raises(Corrupt, match=CLOSED):
            read_alone(cluster, replica, image.tail)
        for _ in range(4):  # each handle has its own idea of whom to ask first
            with ithaca.connect(cluster.bootstrap) as log:
                assert everything(log, image.tail) == [image.rows] * 3
        problem = f"{name} holds damaged records of lane {CLOSED}: restart it while its peers are well"
        assert cluster.status().problems() == [problem]
        with ithaca.connect(cluster.bootstrap) as log:
            assert log.status().problems == (problem,)
        assert metric(cluster, replica, "running") >= 1
        assert [record for record in caplog.records if f"lane {CLOSED} is damaged" in record.getMessage()]
        cluster.stop_server(name)
        cluster.start_server(name)
        cluster.wait_healthy()
        assert [each["repaired"] for each in replica_status(cluster, replica)["damaged"]] == [True]
        check_both_hold(cluster, image)


def test_a_peer_that_fetches_gets_no_damaged_records_and_the_damage_is_known(image: Image, tmp_path: Path) -> None:
    """The replica that lacks the lane has nobody else to ask: it waits, and says so."""
    directory = copied(image, tmp_path / "cluster")
    middle_of_first_segment(directory, 0)
    with running(directory) as cluster:
        cluster.stop_server("shard-0-replica-1")
        no_segments(lanes_of(directory, 1) / CLOSED, Random(1))
        cluster.start_server("shard-0-replica-1")
        wanted = {
            f"shard-0-replica-0 holds damaged records of lane {CLOSED}: restart it while its peers are well",
            f"shard-0-replica-1 lacks lane {CLOSED}, which was damaged, until a peer has sent it",
            "shard-0-replica-1 is catching up",
        }
        while not wanted <= set(cluster.status().problems()):
            time.sleep(0.02)
        rest = image.rows[-9:]
        for _ in range(4):  # each handle has its own idea of whom to ask first
            with ithaca.connect(cluster.bootstrap) as log, log.subscribe(rest[0][0]) as subscription:
                assert rows_of(log.read(row[0]) for row in rest) == rest, "what is not damaged is served where it is"
                assert rows_of(log.read_range(rest[0][0])) == rest
                assert rows_of(next(subscription) for _ in rest) == rest


def test_what_is_damaged_everywhere_is_corrupt_and_the_rest_is_readable(image: Image, tmp_path: Path) -> None:
    directory = copied(image, tmp_path / "cluster")
    for replica in (0, 1):
        middle_of_first_segment(directory, replica)
    with running(directory) as cluster, ithaca.connect(cluster.bootstrap) as log:
        bad = [position for position in range(1, image.tail) if is_damaged(log, position)]
        assert bad
        assert len(bad) < 15
        assert len(set(range(bad[0], bad[-1] + 1)) - set(bad)) < len(bad) * 2, "of one lane, in one place"
        good = [row for row in image.rows if row[0] not in bad]
        assert [row for row in image.rows if row[0] not in bad] == rows_of(log.read(row[0]) for row in good)
        with pytest.raises(Corrupt, match=CLOSED):
            list(log.read_range(1, image.tail))
        with log.subscribe(start=1) as subscription:
            with pytest.raises(Corrupt, match=CLOSED):
                list(subscription)
            assert subscription.position == bad[0]
        assert rows_of(log.read_range(bad[-1] + 1, image.tail)) == image.rows[bad[-1] :]


def is_damaged(log: ClusterLog, position: int) -> bool:
    try:
        log.read(position)
    except Corrupt:
        return True
    return False


def test_damage_to_what_a_replica_needs_itself_ends_it_and_the_next_start_repairs_it(
    image: Image, tmp_path: Path
) -> None:
    """A trim looks at the pages of runs, and one of them does not check out."""
    directory = copied(image, tmp_path / "cluster")
    path = max((lanes_of(directory, 0) / CLOSED).glob("runs-*"))
    flip(path, path.stat().st_size - 40)  # the last page's
    name = "shard-0-replica-0"
    with running(directory) as cluster, ithaca.connect(cluster.bootstrap) as log:
        position = image.tail - 20
        log.trim(position)
        start_when_it_has_ended(cluster, name)
        cluster.wait_healthy()
        assert [each["kept"] for each in replica_status(cluster, 0)["damaged"]] == [f"{CLOSED}.damaged-1"]
        assert rows_of(log.read_range(position)) == image.rows[position - 1 :]


def start_when_it_has_ended(cluster: Cluster, name: str) -> None:
    """As a supervisor does."""
    while True:
        try:
            cluster.start_server(name)
        except (InvalidInput, LogInUse):  # it runs, or is about to end
            time.sleep(0.02)
        else:
            return


# Anything


def check_any_damage(image: Image, directory: Path, seed: int) -> None:
    """Flip a bit anywhere in the lanes of a replica: readers see nothing of it, and two starts repair it."""
    random = Random(seed)
    directory, replica = copied(image, directory), random.randrange(2)
    files = [path for path in sorted(lanes_of(directory, replica).rglob("*")) if path.is_file()]
    path = random.choices(files, [each.stat().st_size for each in files])[0]
    flip(path, random.randrange(path.stat().st_size), 1 << random.randrange(8))
    name = f"shard-0-replica-{replica}"
    with running(directory) as cluster:
        with ithaca.connect(cluster.bootstrap) as log:
            assert everything(log, image.tail) == [image.rows] * 3
        with suppress(Corrupt):
            assert read_alone(cluster, replica, image.tail) == image.rows
        cluster.stop_server(name)
        cluster.start_server(name)
        cluster.wait_healthy()
        check_both_hold(cluster, image)


@pytest.mark.parametrize("seed", range(4))
def test_a_sample_of_bits_that_flip_anywhere_is_repaired(seed: int, image: Image, tmp_path: Path) -> None:
    check_any_damage(image, tmp_path / "cluster", seed)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(4, 64))
def test_bits_that_flip_anywhere_are_repaired(seed: int, image: Image, tmp_path: Path) -> None:
    check_any_damage(image, tmp_path / "cluster", seed)


# Orderers


@pytest.mark.parametrize("file", [FILE_NAME, "meta"])
def test_an_orderer_with_a_damaged_disk_is_refused_and_the_others_go_on(file: str, tmp_path: Path) -> None:
    with small_pages(), running(tmp_path, orderers=3) as cluster, ithaca.connect(cluster.bootstrap) as log:
        assert log.append(b"a").position == 1
        cluster.stop_server("orderer-2")
        damaged = tmp_path / "orderer-2" / file
        flip(damaged, 20)
        with pytest.raises(Corrupt, match="a majority of the others goes on without it") as caught:
            cluster.start_server("orderer-2")
        assert caught.value.file == str(damaged)
        assert log.append(b"b").position == 2
        assert [record.value for record in log.read_range(1)] == [b"a", b"b"]
        flip(damaged, 20)
        cluster.start_server("orderer-2")
        cluster.wait_healthy()
