"""Replicas that fail, are removed, replaced and added to, in clusters of real servers."""

import asyncio
import dataclasses
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ithaca
from ithaca.engines.scalog.client.admin import replicas as admin_replicas
from ithaca.engines.scalog.client.admin.admin import AsyncClusterAdmin
from ithaca.engines.scalog.client.admin.status import ask_server
from ithaca.engines.scalog.client.links import Links
from ithaca.engines.scalog.ordering.decisions import spares
from ithaca.engines.scalog.server.replica.copies import Copies
from ithaca.engines.scalog.storage import replica_meta
from ithaca.model.addresses import parse_address
from ithaca.model.config.failures import FailurePolicy
from ithaca.model.errors import AddressInUse, DeadlineExceeded, InvalidInput, NoSuchReplica, NoSuchShard, Unavailable
from ithaca.model.health import ServerStatus
from ithaca.model.limits import SEGMENT_BYTES_MIN
from ithaca.model.positions import LaneId
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address
from ithaca.testing import Cluster

QUICK_MS = 500


def until(condition: Callable[[], Any], what: str) -> Any:
    """What the condition gives once that is something."""
    deadline = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited until {what}"
        time.sleep(0.02)
    return found


def numbers(log: ithaca.ClusterLog, shard: int = 0) -> list[int]:
    found = next(each for each in log.admin.shards() if each.shard == shard)
    return [each.replica for each in found.replicas]


def values(log: ithaca.ClusterLog) -> list[bytes]:
    with log.read_range(1, log.tail()) as records:
        return [record.value for record in records]


def test_a_replica_is_replaced_and_all_is_there() -> None:
    with Cluster(replicas=2, spares=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        written = [str(number).encode() for number in range(50)]
        for value in written:
            log.append(value)
        new = str(cluster.file.spares[0])
        assert log.admin.replace_replica(0, 0, new) == 2
        assert log.admin.replace_replica(0, 0, new) == 2
        with pytest.raises(AddressInUse, match="in the place of another than replica 1"):
            log.admin.replace_replica(0, 1, new)
        assert numbers(log) == [1, 2]
        log.append(b"afterwards")
        cluster.kill_replica(0, 1)
        assert values(log) == [*written, b"afterwards"]


@pytest.mark.parametrize("first", [18, 21])
def test_a_session_goes_on_when_all_who_saw_its_trimmed_batches_are_gone(first: int) -> None:
    cluster = Cluster(replicas=2, spares=2)
    cluster.file = dataclasses.replace(cluster.file, segment_bytes=SEGMENT_BYTES_MIN)
    with cluster, ithaca.connect(cluster.bootstrap) as log:
        session = log.session("payments")
        written = [b"%d " % number + bytes(SEGMENT_BYTES_MIN // 4) for number in range(20)]
        for value in written:
            session.append(value)
        log.trim(first)
        for replica, spare in enumerate(map(str, cluster.file.spares)):
            log.admin.replace_replica(0, replica, spare)
            cluster.stop_server(f"shard-0-replica-{replica}")
        if first <= 20:
            assert session.append(written[-1], seq=20).position == 20, "it was there already"
        assert session.append(b"the next").position == 21
        with log.read_range(first, log.tail()) as records:
            assert [record.value for record in records] == [*written[first - 1 :], b"the next"]


def test_a_shard_short_of_a_replica_is_read_and_takes_appends_again_when_it_is_complete() -> None:
    with Cluster(replicas=2, spares=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append(b"before")
        cluster.kill_replica(0, 0)
        log.admin.remove_replica(0, 0)
        log.admin.remove_replica(0, 0)
        assert numbers(log) == [1]
        assert values(log) == [b"before"]
        with pytest.raises(DeadlineExceeded):
            log.append(b"nowhere to go", timeout=0.3)
        assert any("short of 1 of its replicas" in each for each in cluster.status().problems())
        assert log.admin.add_replica(0, str(cluster.file.spares[0])) == 2
        log.append(b"after")
        assert b"after" in values(log)
        cluster.kill_replica(0, 1)
        assert b"before" in values(log)


def test_a_removed_replica_that_runs_on_serves_nobody() -> None:
    with Cluster(replicas=2, spares=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append(b"before")
        log.admin.replace_replica(0, 1, str(cluster.file.spares[0]))

        def states() -> dict[str, str]:
            return {server.place.name: server.state for server in cluster.status().servers}

        until(lambda: states()["shard-0-replica-1"] == "removed", "it has noticed")
        cluster.stop_server("shard-0-replica-1")
        cluster.start_server("shard-0-replica-1")
        until(lambda: states()["shard-0-replica-1"] == "removed", "it has noticed again")
        log.append(b"after")
        cluster.wait_healthy()
        assert values(log) == [b"before", b"after"]


def test_a_finalized_shard_gets_more_replicas_to_read_from() -> None:
    with Cluster(shards=2, replicas=1, spares=3) as cluster, ithaca.connect(cluster.bootstrap) as log:
        for number in range(20):
            log.append_to_shard(number % 2, str(number).encode())
        log.admin.finalize_shard(0)
        assert [log.admin.add_replica(0, str(address)) for address in cluster.file.spares[:2]] == [1, 2]
        cluster.kill_replica(0, 0)
        with ithaca.connect(cluster.bootstrap) as other:
            assert sorted(map(int, values(other))) == list(range(20))
        assert log.admin.replace_replica(0, 1, str(cluster.file.spares[2])) == 3
        assert numbers(log) == [0, 2, 3]
        cluster.stop_server("spare-1")
        assert len(values(log)) == 20


def renamed(cluster: Cluster, name: str, host: str) -> None:
    """Have a server that was stopped started at another name of its address."""
    place = cluster._places[name]
    cluster._places[name] = dataclasses.replace(place, address=Address(host, place.address.port))
    cluster.start_server(name)


def state_of(cluster: Cluster, name: str) -> str:
    return next(server.state for server in cluster.status().servers if server.place.name == name)


def test_a_copy_of_a_finalized_shard_is_the_same_replica_under_another_name() -> None:
    """It has no lane of its own, and the others are gone: nothing of it may be given up because of a name."""
    with Cluster(shards=2, replicas=1, spares=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        for number in range(20):
            log.append_to_shard(number % 2, str(number).encode())
        log.admin.finalize_shard(0)
        log.admin.add_replica(0, str(cluster.file.spares[0]))
        until(lambda: state_of(cluster, "spare-1") == "finalized", "it knows that it was added")
        log.admin.remove_replica(0, 0)
        cluster.stop_server("shard-0-replica-0")
        cluster.stop_server("spare-1")
        renamed(cluster, "spare-1", "localhost")
        until(lambda: state_of(cluster, "spare-1") == "finalized", "it is back")
        assert sorted(map(int, values(log))) == list(range(20))


def test_a_removed_copy_of_a_finalized_shard_is_kept_for_people() -> None:
    with Cluster(shards=2, replicas=1, spares=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append_to_shard(0, b"a")
        log.admin.finalize_shard(0)
        number = log.admin.add_replica(0, str(cluster.file.spares[0]))
        until(lambda: state_of(cluster, "spare-1") == "finalized", "it knows that it was added")
        log.admin.remove_replica(0, number)
        until(lambda: state_of(cluster, "spare-1") == "removed", "it has noticed")
        cluster.stop_server("spare-1")
        cluster.start_server("spare-1")
        until(lambda: state_of(cluster, "spare-1") == "removed", "it has noticed again")
        assert (cluster.directory / "spare-1" / "lanes" / "0-0-1").exists()


def test_a_learner_that_nobody_asks_for_any_more_is_a_spare_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spares, "LEARNER_UNASKED_S", 1.0)
    with Cluster(replicas=2, spares=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append(b"a")
        spare = str(cluster.file.spares[0])
        with pytest.raises(InvalidInput, match="has all its 2 replicas"):  # it learns, and nobody makes room for it
            asyncio.run(copied_in_vain(cluster.bootstrap, spare))
        until(lambda: state_of(cluster, "spare-1") == "waiting", "it waits again")
        (kept,) = (cluster.directory / "spare-1").glob("set-aside-0-2-*")
        assert (kept / "0-0-1").exists()
        said = next(server.status for server in cluster.status().servers if server.place.name == "spare-1")
        assert said is not None
        assert said["quarantined"] == [kept.name]
        assert log.admin.replace_replica(0, 0, spare) == 3
        assert values(log) == [b"a"]


def test_a_spare_that_may_keep_no_more_says_so_and_waits_again_when_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spares, "LEARNER_UNASKED_S", 1.0)
    monkeypatch.setattr(replica_meta, "COPIES_QUARANTINED_MAX", 0)
    with Cluster(replicas=2, spares=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append(b"a")
        with pytest.raises(InvalidInput, match="has all its 2 replicas"):
            asyncio.run(copied_in_vain(cluster.bootstrap, str(cluster.file.spares[0])))
        until(lambda: state_of(cluster, "spare-1") == "quarantining", "it says so")
        assert (cluster.directory / "spare-1" / "lanes" / "0-0-1").exists()
        monkeypatch.setattr(replica_meta, "COPIES_QUARANTINED_MAX", 1)  # as if somebody had deleted one
        until(lambda: state_of(cluster, "spare-1") == "waiting", "it waits again")


async def copied_in_vain(bootstrap: str, spare: str) -> None:
    """What an administrator's call does that ends before the old replica was removed."""
    async with ithaca.aio.connect(bootstrap) as log:
        assert isinstance(log.admin, AsyncClusterAdmin)
        await log.admin._replicas._until(0, parse_address(spare), ("added",), None)


def test_what_cannot_be_done_is_refused_by_name() -> None:
    with Cluster(shards=2, replicas=2, spares=1) as cluster, ithaca.connect(cluster.bootstrap, timeout=1) as log:
        spare = str(cluster.file.spares[0])
        with pytest.raises(NoSuchShard, match="no shard 7"):
            log.admin.remove_replica(7, 0)
        with pytest.raises(NoSuchReplica, match="no replica 5 of shard 0"):
            log.admin.remove_replica(0, 5)
        with pytest.raises(NoSuchReplica, match="no replica 5 of shard 0"):
            log.admin.replace_replica(0, 5, spare)
        with pytest.raises(InvalidInput, match="has all its 2 replicas"):
            log.admin.add_replica(0, spare)
        with pytest.raises(InvalidInput, match="not an address"):
            log.admin.add_replica(0, "nowhere")
        log.admin.remove_replica(0, 0)
        with pytest.raises(InvalidInput, match="may have what the others lack"):
            log.admin.remove_replica(0, 1)
        with pytest.raises(InvalidInput, match="would be nowhere"):
            log.admin.remove_replica(0, 1, force=True)
        with pytest.raises(Unavailable, match="ithaca serve --spare"):
            log.admin.add_replica(0, "127.0.0.1:1")
        with pytest.raises(AddressInUse):
            log.admin.add_replica(0, str(cluster.file.shards[1].replicas[0].address))
        assert log.admin.add_replica(0, spare) == 2


def test_others_that_catch_up_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def ask(links: Links, place: ServerPlace) -> ServerStatus:
        answer = await ask_server(links, place)
        asked.append(place.name)
        behind = {**(answer.status or {}), "state": "catching up"}
        return dataclasses.replace(answer, status=behind) if len(asked) <= 4 else answer

    monkeypatch.setattr(admin_replicas, "ask_server", ask)
    with Cluster(replicas=3, masking=True) as cluster, ithaca.connect(cluster.bootstrap, timeout=2) as log:
        log.append(b"a")
        log.admin.remove_replica(0, 0)
        assert len(asked) > 4
        assert numbers(log) == [1, 2]


def test_others_that_do_not_catch_up_in_time_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(links: Links, place: ServerPlace) -> ServerStatus:
        answer = await ask_server(links, place)
        return dataclasses.replace(answer, status={**(answer.status or {}), "state": "catching up"})

    monkeypatch.setattr(admin_replicas, "ask_server", ask)
    with Cluster(replicas=3, masking=True) as cluster, ithaca.connect(cluster.bootstrap, timeout=0.5) as log:
        log.append(b"a")
        with pytest.raises(InvalidInput, match="1 is catching up, 2 is catching up"):
            log.admin.remove_replica(0, 0)
        assert numbers(log) == [0, 1, 2]


def test_a_replica_that_others_have_replaced_is_not_replaced_again() -> None:
    with Cluster(replicas=2, spares=2) as cluster, ithaca.connect(cluster.bootstrap) as log:
        first, second = map(str, cluster.file.spares)
        log.append(b"a")
        assert log.admin.replace_replica(0, 0, first) == 2
        with pytest.raises(NoSuchReplica, match=r"there is no replica 0 of shard 0: 1 at .*, 2 at "):
            log.admin.replace_replica(0, 0, second)
        assert log.admin.replace_replica(0, 1, second) == 3, "it waits as before"
        assert values(log) == [b"a"]


def test_a_place_that_another_takes_is_waited_for_by_nobody() -> None:
    with Cluster(replicas=2, spares=2) as cluster, ithaca.connect(cluster.bootstrap) as log:
        first, second = map(str, cluster.file.spares)
        log.append(b"a")
        log.admin.remove_replica(0, 0)
        with ThreadPoolExecutor() as pool:
            adding = [pool.submit(log.admin.add_replica, 0, address) for address in (first, second)]
            problems = [each.exception(timeout=60) for each in adding]
        refused = [each for each in problems if each is not None]
        assert [type(each) for each in refused] == [InvalidInput]
        assert "shard 0 has all its 2 replicas" in str(refused[0])
        assert len(numbers(log)) == 2


def test_a_silent_replica_is_replaced_by_a_spare_without_an_operator() -> None:
    policy = FailurePolicy("replace", QUICK_MS)
    with Cluster(replicas=2, spares=1, failures=policy) as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append(b"before")
        cluster.kill_replica(0, 0)
        until(lambda: numbers(log) == [1, 2], "the spare has taken its place")
        log.append(b"after")
        cluster.kill_replica(0, 1)
        assert values(log) == [b"before", b"after"]


def test_the_shard_of_a_silent_replica_is_finalized_and_spares_make_another() -> None:
    policy = FailurePolicy("finalize-and-add", QUICK_MS)
    with Cluster(replicas=2, spares=2, failures=policy) as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append(b"before")
        cluster.kill_replica(0, 1)
        until(lambda: len(log.admin.shards()) == 2, "there is another shard")
        assert log.append(b"after").shard == 1
        until(lambda: log.admin.shards()[0].phase == "finalized", "the old one is finalized")
        assert values(log) == [b"before", b"after"]


def test_the_lane_of_a_silent_replica_is_closed_and_the_others_go_on() -> None:
    policy = FailurePolicy("mask", QUICK_MS)
    with Cluster(replicas=3, masking=True, failures=policy) as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append(b"before")
        cluster.kill_replica(0, 0)
        log.append(b"meanwhile")
        until(lambda: not log.admin.shards()[0].replicas[0].is_open, "its lane is closed")
        log.append(b"then")
        cluster.start_server("shard-0-replica-0")
        until(lambda: log.admin.shards()[0].replicas[0].is_open, "it has a new lane")
        cluster.wait_healthy()
        cluster.kill_replica(0, 1)
        assert values(log) == [b"before", b"meanwhile", b"then"]


def test_nothing_is_done_about_a_silent_replica_unless_the_file_says_so() -> None:
    with Cluster(replicas=2, spares=2) as cluster, ithaca.connect(cluster.bootstrap) as log:
        cluster.kill_replica(0, 0)
        time.sleep(1)
        assert numbers(log) == [0, 1]
        assert [each.phase for each in log.admin.shards()] == ["live"]


def test_a_spare_learns_slowly_where_the_records_were_that_are_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile the primary has nothing for it but what it cannot take yet."""
    ask = Copies._ask_runs

    async def ask_late(copies: Copies, source: Address, lane: LaneId, start: int, stop: int) -> int:
        await asyncio.sleep(0.2)
        return await ask(copies, source, lane, start, stop)

    monkeypatch.setattr(Copies, "_ask_runs", ask_late)
    cluster = Cluster(replicas=2, spares=1)
    cluster.file = dataclasses.replace(cluster.file, segment_bytes=SEGMENT_BYTES_MIN)
    with cluster, ithaca.connect(cluster.bootstrap) as log:
        for _ in range(20):  # full segments have runs synced, so that the order lets go of them: replicas must be asked
            log.append(bytes(SEGMENT_BYTES_MIN // 4))
            time.sleep(0.02)
        log.trim(21)
        log.admin.replace_replica(0, 0, str(cluster.file.spares[0]), timeout=60)
        assert log.append(b"b").position == 21
