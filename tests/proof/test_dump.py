"""What stopped replicas hold: of real clusters that were stopped or killed, and on simulated disks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import ithaca
from ithaca.engines.scalog.storage import replica_meta
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.engines.scalog.storage.runs_format import Run
from ithaca.model.errors import Corrupt, NoSuchLog
from ithaca.model.positions import FIRST, LaneId
from ithaca.proof import payload
from ithaca.proof.checker import check
from ithaca.proof.dump import dump_replica
from ithaca.proof.history import Append, Final, Id, Plan, Tail
from ithaca.sim.disk import SimDisk
from ithaca.storage.disk import OsDisk
from ithaca.testing import Cluster
from ithaca.wire.batch import lane_seed
from ithaca.wire.build import build

LANE = LaneId(0, 0, 1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", shards=2) as running:
        yield running


def append_some(cluster: Cluster, session: int, batches: int) -> list[Append]:
    """Batches of one to three records, one after the other, as a history tells it; times are counted."""
    appends: list[Append] = []
    with ithaca.connect(cluster.bootstrap) as log:
        number = 0
        for at in range(batches):
            count = at % 3 + 1
            values = [payload.encode(session, number + row, 24 + 7 * row) for row in range(count)]
            position = log.append_many(values).position
            appends.append(Append(id=(session, number), n=count, inv=at, ret=at, st="ok", pos=position))
            number += count
    return appends


def contents(final: Final) -> dict[int, object]:
    return {first + at: item for first, items in final.runs for at, item in enumerate(items)}


def expected(appends: list[Append]) -> dict[int, Id]:
    found: dict[int, Id] = {}
    for append in appends:
        assert isinstance(append.pos, int)
        found |= {append.pos + row: (append.id[0], append.id[1] + row) for row in range(append.n)}
    return found


def files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def replicas(cluster: Cluster) -> list[str]:
    return [name for name in cluster.names if name.startswith("shard-")]


def test_a_cluster_that_was_stopped_holds_everything_twice(cluster: Cluster) -> None:
    appends = append_some(cluster, 5, 30)
    with ithaca.connect(cluster.bootstrap) as log:
        tail = log.tail()
    cluster.close()
    before = files(cluster.directory)
    dumps = [dump_replica(OsDisk(), str(cluster.directory / name), name) for name in replicas(cluster)]
    assert files(cluster.directory) == before
    held = [contents(dump) for dump in dumps]
    assert held[0] == held[1]
    assert held[2] == held[3]
    assert held[0] | held[2] == expected(appends)
    verdict = check([Plan(copies=2, ok_min=30), *appends, Tail(inv=99, ret=99, n=tail), *dumps])
    assert verdict.ok, verdict


def test_a_replica_that_was_killed_holds_no_less_than_it_knew_the_order_of(cluster: Cluster) -> None:
    wanted = expected(append_some(cluster, 5, 30))
    for name in replicas(cluster):
        cluster.kill_server(name)
    before = files(cluster.directory)
    for name in replicas(cluster):
        held = contents(dump_replica(OsDisk(), str(cluster.directory / name), name))
        assert held.items() <= wanted.items()
    assert files(cluster.directory) == before
    for name in replicas(cluster):
        cluster.start_server(name)
    cluster.wait_healthy()
    wanted |= expected(append_some(cluster, 6, 3))
    cluster.close()
    dumps = [dump_replica(OsDisk(), str(cluster.directory / name), name) for name in replicas(cluster)]
    assert contents(dumps[0]) | contents(dumps[2]) == wanted
    assert contents(dumps[0]) == contents(dumps[1])


def test_a_value_that_is_no_payload_is_named(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        log.append(payload.encode(1, 0, 100))
        position = log.append(b"something else, of some length").position
    cluster.close()
    with pytest.raises(Corrupt, match=f"position {position}: the value does not begin as a payload does"):
        [dump_replica(OsDisk(), str(cluster.directory / name), name) for name in replicas(cluster)]


def stored(disk: SimDisk, *, ordered: int) -> LaneStore:
    """A lane of 20 records in four batches, some of them ordered: every second position is another shard's."""
    replica_meta.start(disk, "/replica", 0, 0, now_us=1)
    disk.make_directory("/replica/lanes")
    store = LaneStore(disk, "/replica/lanes", segment_bytes=1 << 16)
    held = store.create(LANE)
    for first in range(0, 20, 5):
        batch = build([payload.encode(9, number, 64) for number in range(first, first + 5)], timestamp_us=1)
        batch.placed(first, lane_seed(LANE))
        held.lane.commit(held.lane.prepare([batch]))
    for lsn in range(ordered):
        held.runs.append(Run(lsn, FIRST + 2 * lsn, 1, lsn))
    return store


def test_on_a_simulated_disk() -> None:
    disk = SimDisk()
    store = stored(disk, ordered=17)
    store.close()
    dump = dump_replica(disk, "/replica", "one")
    assert contents(dump) == {1 + 2 * number: (9, number) for number in range(17)}
    assert dump.node == "one"


def test_runs_that_were_not_synced_are_not_there() -> None:
    disk = SimDisk()
    store = stored(disk, ordered=8)
    store.lanes[LANE].runs.sync()
    store.lanes[LANE].runs.append(Run(8, 100, 12, 100))
    operations = disk.operations
    assert len(contents(dump_replica(disk, "/replica", "one"))) == 8
    assert disk.operations == operations


def test_a_lane_that_is_being_dropped_holds_nothing() -> None:
    disk = SimDisk()
    stored(disk, ordered=8).close()
    disk.open(f"/replica/lanes/{LANE}/dropped", create=True)
    assert dump_replica(disk, "/replica", "one").runs == ()


@pytest.mark.parametrize("file", ["runs", "00000000000000000000.seg"])
def test_damage_is_raised(file: str) -> None:
    disk = SimDisk()
    stored(disk, ordered=8).close()
    found = disk.open(f"/replica/lanes/{LANE}/{file}")
    where = 700 if file == "runs" else found.size() // 2
    found.write(where, [bytes([found.read(where, 1)[0] ^ 1])])
    with pytest.raises(Corrupt):
        dump_replica(disk, "/replica", "one")


def test_another_directory_is_refused() -> None:
    with pytest.raises(NoSuchLog, match="/elsewhere"):
        dump_replica(SimDisk(), "/elsewhere", "one")
