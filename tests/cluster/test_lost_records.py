"""Records that are ordered, and on no disk any more: an operator says so, readers are told, everything else goes on."""

import shutil
from collections.abc import Iterator

import pytest
from tests.cli.command import ithaca as run
from tests.cli.command import json_lines

import ithaca
import ithaca.aio
from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.admin.admin import AsyncClusterAdmin
from ithaca.engines.scalog.messages.losing import DeclareLoss
from ithaca.engines.scalog.replica import reporting
from ithaca.engines.scalog.server.orderer.server import OrdererServer
from ithaca.model.positions import LaneId
from ithaca.testing import Cluster

REPLICAS = ("shard-0-replica-0", "shard-0-replica-1")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def syncs_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas sync their runs, and say so, with each cut, so that the ordering layer forgets it soon."""
    monkeypatch.setattr(reporting, "RUNS_SYNC_CUTS", 1)


def forget_cuts(cluster: Cluster, log: ithaca.ClusterLog) -> int:
    """Append until nobody but the replicas of shard 0 knows where its first records are; returns the next position."""
    server = cluster._running["orderer-1"].server
    assert isinstance(server, OrdererServer)
    state = server._machine.state
    first, tail = min(state.kept), log.tail()
    while min(state.kept, default=first) <= first + 1:
        tail = log.append_to_shard(0, b"more").position + 1
    return tail


def start_empty(cluster: Cluster) -> None:
    """Both replicas of shard 0 lose their disks, and start again."""
    for name in REPLICAS:
        cluster.kill_replica(0, int(name[-1]))
    for name in REPLICAS:
        shutil.rmtree(cluster.directory / name)
        cluster.start_server(name)


def lost_positions(log: ithaca.ClusterLog, start: int, stop: int) -> tuple[list[int], list[int]]:
    """The positions of a range that have records, and those that are lost: each loss says where to go on."""
    there: list[int] = []
    lost: list[int] = []
    while start < stop:
        try:
            for record in log.read_range(start, stop):
                there.append(record.position)
            break
        except ithaca.Lost as error:
            lost += range(error.start, error.stop)
            start = error.stop
    return there, lost


def declare_all(log: ithaca.ClusterLog) -> None:
    for each in log.admin.missing():
        log.admin.declare_lost(each.lane, each.start, each.stop)


def wait_missing(log: ithaca.ClusterLog, lanes: int) -> tuple[ithaca.MissingInfo, ...]:
    """Until the replicas that started again have heard what is ordered."""
    while len(missing := log.admin.missing()) < lanes or any(each.silent for each in missing):
        pass
    return missing


@pytest.mark.usefixtures("syncs_runs")
def test_what_both_replicas_lost_is_told_in_its_place_once_it_is_declared(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap, timeout=60) as log:
        log.append_to_shard(0, b"first")
        tail = forget_cuts(cluster, log)
        start_empty(cluster)
        (missing,) = wait_missing(log, 1)
        assert (missing.start, missing.stop) == (0, tail - 1)
        (problem,) = [each for each in log.status().problems if missing.lane in each]
        assert f"ithaca shard lost {missing.lane} 0 {tail - 1}" in problem
        for start, stop, why in ((0, tail, "are ordered"), (0, 1, "nobody knows the positions"), (1, 1, "nothing")):
            with pytest.raises(ithaca.InvalidInput, match=why):
                log.admin.declare_lost(missing.lane, start, stop)
        declare_all(log)
        log.admin.declare_lost(missing.lane, missing.start, missing.stop)  # again is the same
        behind = log.append(b"behind").position
        assert behind == tail
        for position in range(1, tail):
            with pytest.raises(ithaca.Lost) as lost:
                log.read(position)
            assert (lost.value.start, lost.value.stop) == (position, position + 1)
        assert log.read(behind).value == b"behind"
        assert lost_positions(log, 1, tail + 1) == ([tail], [*range(1, tail)])
        with log.subscribe(1) as records, pytest.raises(ithaca.Lost) as told:
            next(records)
        assert (told.value.start, told.value.stop) == (1, tail)
        with log.subscribe(told.value.stop) as records:
            assert next(records).value == b"behind"
        cluster.wait_healthy()
        assert log.admin.missing() == ()


@pytest.mark.usefixtures("syncs_runs")
def test_the_records_of_other_shards_between_lost_ones_are_read() -> None:
    with Cluster(shards=2) as cluster, ithaca.connect(cluster.bootstrap, timeout=60) as log:
        shards = (0, 1, 1, 0, 0, 1, 0)
        for shard in shards:
            log.append_to_shard(shard, b"%d" % shard)
        tail = forget_cuts(cluster, log)
        start_empty(cluster)
        wait_missing(log, 1)
        declare_all(log)
        last = log.append_to_shard(1, b"last").position
        gone = [position for position, shard in enumerate(shards, 1) if not shard] + [*range(len(shards) + 1, tail)]
        there = [position for position, shard in enumerate(shards, 1) if shard]
        assert lost_positions(log, 1, last + 1) == ([*there, last], gone)
        for position in gone:
            with pytest.raises(ithaca.Lost):
                log.read(position)
        with pytest.raises(ithaca.Lost) as told:  # whoever filters cannot be told which they are
            list(log.read_range(1, last + 1, where=ithaca.KeyFilter.prefix(b"")))
        assert told.value.start == 1
        assert log.append_to_shard(0, b"more").position == last + 1
        # After another restart it is as before.
        cluster.kill_replica(0, 0)
        cluster.start_server(REPLICAS[0])
        cluster.wait_healthy()
        assert lost_positions(log, 1, last + 2) == ([*there, last, last + 1], gone)
        log.trim(last)
        assert [record.position for record in log.read_range(last, last + 2)] == [last, last + 1]
        cluster.wait_healthy()


def test_the_commands_name_what_is_missing_and_declare_it_lost(cluster: Cluster) -> None:
    where = ("-b", cluster.bootstrap)
    with ithaca.connect(cluster.bootstrap, timeout=60) as log:
        log.session("keeper").append(b"gone")
        start_empty(cluster)
        (missing,) = wait_missing(log, 1)
        assert json_lines(run("shard", "missing", *where, "--json").stdout) == [
            {"lane": missing.lane, "start": 0, "stop": 1, "silent": []}
        ]
        assert f"ithaca shard lost {missing.lane} 0 1" in run("status", *where, status=1).stdout.decode()
        declared = run("shard", "lost", missing.lane, "0", "1", *where)
        assert declared.stdout == f"LSNs 0 to 0 of lane {missing.lane} are declared lost\n".encode()
        assert log.admin.missing() == ()
        # Nobody knows what the session did last, so its name begins again.
        log.admin.expire_session("keeper")
        assert log.session("keeper").append(b"here").position == 2


def test_what_a_replica_holds_cannot_be_declared_lost(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap, timeout=60) as log:
        receipt = log.append(b"here")
        lane = next(each.lane for each in log.admin.shards()[0].replicas if each.ordered)
        assert lane is not None
        with pytest.raises(ithaca.InvalidInput, match="is open"):
            log.admin.declare_lost(lane, 0, 1)
        holder = int(lane.split("-")[1])
        cluster.kill_replica(0, holder)
        cluster.start_server(REPLICAS[holder])
        cluster.wait_healthy()
        with pytest.raises(ithaca.InvalidInput, match="holds lane"):
            log.admin.declare_lost(lane, 0, 1)
        cluster.kill_replica(0, 1 - holder)
        with pytest.raises(ithaca.InvalidInput, match="does not say what it holds"):
            log.admin.declare_lost(lane, 0, 1)
        with pytest.raises(ithaca.InvalidInput, match="holds lane"):
            log.admin.declare_lost(lane, 0, 1, without=[1 - holder])
        cluster.start_server(REPLICAS[1 - holder])
        for wrong in ("0-1", "0-1-x", "7-0-1", f"{lane}0"):
            with pytest.raises(ithaca.IthacaError):
                log.admin.declare_lost(wrong, 0, 1)
        assert log.read(receipt.position).value == b"here"


def test_positions_that_are_known_are_told_by_the_replica_that_lost_the_records(cluster: Cluster) -> None:
    """The lanes' records are cut off, as by a power cut without syncs, and the positions are still there."""
    with ithaca.connect(cluster.bootstrap, timeout=60) as log:
        for number in range(6):
            log.append_to_shard(0, b"%d" % number * 100)
        lane = next(each.lane for each in log.admin.shards()[0].replicas if each.ordered)
        for name in REPLICAS:
            cluster.kill_replica(0, int(name[-1]))
        for name in REPLICAS:
            cut_off(cluster, name, str(lane))
            cluster.start_server(name)
        (missing,) = wait_missing(log, 1)
        assert 0 < missing.start < missing.stop == 6
        with pytest.raises(ithaca.InvalidInput, match="holds lane"):
            log.admin.declare_lost(missing.lane, 0, 6)
        declare_all(log)
        behind = log.append(b"behind").position
        first = missing.start + 1
        assert lost_positions(log, 1, behind + 1) == ([*range(1, first), behind], [*range(first, 7)])
        cluster.wait_healthy()


def cut_off(cluster: Cluster, name: str, lane: str) -> None:
    """Let half of a lane's records be gone, with what said that they were synced."""
    directory = cluster.directory / name / "lanes" / lane
    for path in directory.iterdir():
        if path.suffix == ".seg":
            data = path.read_bytes()
            end = len(data.rstrip(b"\0"))
            path.write_bytes(data[: end // 2 // 8 * 8])
        elif path.suffix in (".idx", ".index") or path.name == "synced":
            path.unlink()


@pytest.mark.parametrize("engine", ["belfast", "raft"])
def test_other_engines_say_that_they_have_none_of_it(engine: str) -> None:
    with Cluster(replicas=1, engine=engine) as cluster, ithaca.connect(cluster.bootstrap, timeout=60) as log:
        for ask in (log.admin.missing, lambda: log.admin.declare_lost("0-0-1", 0, 1)):
            with pytest.raises(ithaca.Unsupported, match="declared lost: use a cluster with the engine scalog"):
                ask()


async def test_a_server_of_an_engine_that_has_none_of_it_refuses_a_declaration() -> None:
    with Cluster(replicas=1, engine="belfast") as cluster:
        async with ithaca.aio.connect(cluster.bootstrap, timeout=60) as log:
            assert isinstance(log.admin, AsyncClusterAdmin)
            with pytest.raises(ithaca.Unsupported):
                await log.admin._order.ask(DeclareLoss(LaneId(0, 0, 1), 0, 1), Deadline(60))
