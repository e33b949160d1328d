"""The driver performs what the core decides: in order, never before the disk, and tells whoever waits."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from msgspec import structs
from tests.runtime.raft_calls import propose, read_index
from tests.runtime.raft_group import DEADLINE_S, SETTINGS, Group, Machine, Server, running, until

from ithaca.model.errors import Fenced, IthacaError, LastOrderer, NoSuchOrderer, StorageFull, Unavailable
from ithaca.model.view import Address
from ithaca.raft.events import Change, Persist, Persisted, Receive, Role, Settings
from ithaca.raft.messages import (
    AppendEntries,
    AppendReply,
    Configuration,
    DurableState,
    Entry,
    EntryKind,
    first_state,
)
from ithaca.runtime.inline_writes import InlineWrites
from ithaca.runtime.raft import disk as raft_disk
from ithaca.runtime.raft import driver as raft_driver
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.runtime.raft.ports import Waiter
from ithaca.storage.raftlog import RaftLog


async def test_the_result_of_a_proposal_is_what_applying_it_returned() -> None:
    async with running(1) as group:
        server = await group.leader()
        assert await propose(server.driver, b"a") == (1, b"a")
        first, second = propose(server.driver, b"b"), propose(server.driver, b"c")
        assert (await second, await first) == ((3, b"c"), (2, b"b"))
        index = await read_index(server.driver)
        assert index == server.driver.applied_index == server.driver.commit_index


async def test_all_servers_apply_the_same_and_only_the_leader_takes_requests() -> None:
    async with running(3) as group:
        leader = await group.leader()
        for text in (b"a", b"b", b"c"):
            await propose(leader.driver, text)
        await until(lambda: all(each.machine.entries == [b"a", b"b", b"c"] for each in group.servers.values()))
        follower = next(each for each in group.servers.values() if each is not leader)
        for refused in (propose(follower.driver, b"d"), read_index(follower.driver)):
            with pytest.raises(Unavailable, match=f"server {leader.number} leads") as caught:
                await refused
            assert not caught.value.outcome_unknown


async def test_a_restart_finds_what_was_applied() -> None:
    async with running(1, Settings(election_timeout_ms=250, heartbeat_ms=40, snapshot_entries=5)) as group:
        server = group.servers[1]
        await until(lambda: server.driver.is_leader)
        for number in range(12):
            await propose(server.driver, b"%d" % number)
        before = list(server.machine.entries)
        await server.driver.stop()
        server.disk.kill()
        server.start()
        assert server.machine.restored_index >= 5
        await group.leader()
        await read_index(server.driver)
        assert server.machine.entries == before
        assert await propose(server.driver, b"more") == (13, b"more")


@pytest.mark.parametrize("chunk_bytes", [3, 1000])
async def test_a_follower_that_was_away_for_long_gets_a_snapshot(
    chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raft_driver, "SNAPSHOT_TURN_BYTES", chunk_bytes)
    settings = Settings(250, 40, snapshot_entries=5, trailing_entries=0, snapshot_chunk_bytes=chunk_bytes)
    async with running(3, settings) as group:
        leader = await group.leader()
        away = next(each for each in group.servers.values() if each is not leader)
        away.is_connected = False
        for number in range(20):
            await propose(leader.driver, b"%d" % number)
        away.is_connected = True
        await until(lambda: away.machine.entries == leader.machine.entries)
        assert away.machine.restored_index >= 5


async def test_a_snapshot_is_encoded_between_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_driver, "SNAPSHOT_TURN_BYTES", 1)
    async with running(1, Settings(election_timeout_ms=250, heartbeat_ms=40, snapshot_entries=30)) as group:
        server = group.servers[1]
        await until(lambda: server.driver.is_leader)
        turns: list[int] = []

        def turn() -> None:
            turns.append(len(server.machine.entries))
            asyncio.get_running_loop().call_soon(turn)

        taken = 0
        original = server.machine.snapshot

        def snapshot() -> Iterator[bytes]:
            nonlocal taken
            for piece in list(original()):
                taken += 1
                turns.clear()
                yield piece
                if taken > 1:
                    assert turns, "a turn of the loop came before the next piece"

        monkeypatch.setattr(server.machine, "snapshot", snapshot)
        turn()
        for number in range(40):
            await propose(server.driver, b"%d" % number)
        await until(lambda: server.driver._core.node.snapshot.index >= 30)
        assert taken > 20
        before = list(server.machine.entries)
        await server.driver.stop()
        server.disk.kill()
        server.start()
        await group.leader()
        await read_index(server.driver)
        assert server.machine.entries == before


async def test_a_leader_that_is_cut_off_does_not_know_what_became_of_a_proposal() -> None:
    async with running(3) as group:
        old = await group.leader()
        old.is_connected = False
        lost, read = propose(old.driver, b"lost"), read_index(old.driver)
        with pytest.raises(Unavailable) as caught:
            await lost
        assert caught.value.outcome_unknown
        with pytest.raises(Unavailable):
            await read
        new = await group.leader()
        assert await propose(new.driver, b"kept") == (1, b"kept")
        old.is_connected = True
        await until(lambda: old.machine.entries == [b"kept"])


async def test_a_machine_may_propose_from_within_an_apply() -> None:
    async with running(1) as group:
        server = await group.leader()
        answers: list[asyncio.Future[object]] = []
        apply = server.machine.apply

        def propose_again(index: int, term: int, data: bytes) -> object:
            if data == b"first":
                answers.append(propose(server.driver, b"second"))
            return apply(index, term, data)

        server.machine.apply = propose_again  # type: ignore[method-assign]
        assert await propose(server.driver, b"first") == (1, b"first")
        assert await answers[0] == (2, b"second")


# The disk


class GatedLog:
    """Syncs only when it is told to."""

    def __init__(self, log: RaftLog) -> None:
        self._log = log
        self.gate = threading.Event()
        self.asked: list[Persist] = []

    def persist(self, effect: Persist) -> None:
        self.asked.append(effect)
        assert self.gate.wait(DEADLINE_S)
        self._log.persist(effect)


async def test_what_stands_behind_a_persist_waits_for_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InlineWrites, "are_quick", False)  # a sync that takes this long is the thread's
    group = Group(1, SETTINGS)
    server = group.servers[1]
    await server.driver.stop()
    server.disk.remove("/raft/raft.log")
    log = GatedLog(RaftLog.create(server.disk, "/raft", first_state(1, 2, 3)))
    quiet = Settings(election_timeout_ms=60_000, heartbeat_ms=1000)
    driver = RaftDriver(1, quiet, log, first_state(1, 2, 3), Machine(), server)
    server.is_connected = False
    driver.start()
    try:
        for index in (1, 2, 3):
            entry = Entry(index, 1, EntryKind.PAYLOAD, b"x")
            previous_term = 1 if index > 1 else 0
            driver.step(Receive(AppendEntries(2, 1, index - 1, previous_term, (entry,), 0)))
        await until(lambda: len(log.asked) == 1)
        assert server.sent == []
        log.gate.set()
        await until(lambda: any(isinstance(each, AppendReply) and each.index == 3 for each in server.sent))
        assert [effect.sequence for effect in log.asked] == sorted(effect.sequence for effect in log.asked)
    finally:
        log.gate.set()
        await driver.stop()


async def test_a_full_disk_is_tried_again_until_there_is_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_disk, "RAFT_FULL_RETRY_S", 0.01)
    async with running(1) as group:
        server = await group.leader()
        await propose(server.driver, b"a")
        server.disk.capacity_bytes = 0
        waiting = [propose(server.driver, text) for text in (b"b", b"c")]
        await until(lambda: isinstance(server.driver.storage_full, StorageFull))
        assert not any(each.done() for each in waiting)
        server.disk.capacity_bytes = None
        assert [await each for each in waiting] == [(2, b"b"), (3, b"c")]
        assert server.driver.storage_full is None


async def test_a_server_with_a_full_disk_can_be_stopped() -> None:
    async with running(1) as group:
        server = await group.leader()
        server.disk.capacity_bytes = 0
        waiting = propose(server.driver, b"b")
        await until(lambda: server.driver.storage_full is not None)
        await server.driver.stop()
        with pytest.raises(Unavailable) as caught:
            await waiting
        assert caught.value.outcome_unknown


async def test_a_failed_sync_stops_the_driver_for_good() -> None:
    async with running(3) as group:
        leader = await group.leader()
        await propose(leader.driver, b"a")
        leader.disk.fail_next_sync()
        with pytest.raises(IthacaError) as caught:
            await propose(leader.driver, b"b")
        assert caught.value.outcome_unknown
        assert isinstance(leader.error, Fenced)
        said = len(leader.sent)
        with pytest.raises(Unavailable, match="has stopped"):
            await propose(leader.driver, b"c")
        assert not leader.driver.is_leader
        leader.is_connected = False
        other = await group.leader()
        await propose(other.driver, b"d")
        assert len(leader.sent) == said


async def test_an_entry_that_cannot_be_applied_stops_the_driver() -> None:
    async with running(1) as group:
        server = await group.leader()
        with pytest.raises(Unavailable, match="has failed"):
            await propose(server.driver, b"unreadable")
        assert isinstance(server.error, ValueError)


async def test_stopping_leaves_no_thread_and_fails_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InlineWrites, "are_quick", False)
    before = threading.active_count()
    async with running(3) as group:
        leader = await group.leader()
        await propose(leader.driver, b"before")
        assert threading.active_count() > before
        for server in group.servers.values():
            server.is_connected = False
        waiting = propose(leader.driver, b"a")
        await leader.driver.stop()
        with pytest.raises(Unavailable, match="stopping"):
            await waiting
        await leader.driver.stop()
        assert leader.error is None
        assert leader.roles[-1].role is Role.LEADER
    assert threading.active_count() == before


async def test_a_write_in_the_middle_of_the_report_of_another_is_not_taken_for_a_barrier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind a persist stands one that writes nothing; the report of the first leads to one that is written at once."""
    async with running(1) as group:
        driver = (await group.leader()).driver
        first, barrier, second = (Persist(sequence=1000 + number) for number in range(3))
        first, second = (
            structs.replace(each, entries=(Entry(9, 1, EntryKind.PAYLOAD, b""),)) for each in (first, second)
        )
        finished: list[int] = []

        def step(event: object) -> None:
            assert isinstance(event, Persisted)
            finished.append(event.sequence)
            if event.sequence == first.sequence:
                driver._persist(second, [])

        def write(effect: Persist) -> None:
            if effect is second:
                driver._persisted(0.0)

        monkeypatch.setattr(driver, "step", step)
        monkeypatch.setattr(driver._disk, "write", write)
        driver._persist(first, [])
        driver._persist(barrier, [])
        driver._persisted(0.0)
        monkeypatch.undo()
    assert finished == [1000, 1001, 1002]


async def test_a_group_grows_shrinks_and_hands_over() -> None:
    async with running(1) as group:
        (old,) = group.servers.values()
        new = Server(group, 2, DurableState())
        group.servers[2] = new

        async def change(server: Server, kind: Change, number: int, place: Address | None) -> object:
            told: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            server.driver.submit_change(kind, number, place, Waiter(told.set_result, told.set_exception))
            return await told

        await propose(old.driver, b"a")
        at = Address("127.0.0.1", 2)
        await change(old, "add learner", 2, at)
        assert old.driver.agreed_configuration == Configuration((1,), (2,), ((2, at),))
        async with asyncio.timeout(DEADLINE_S):
            while old.driver.configuration.learners:
                with suppress(Unavailable):
                    await change(old, "promote", 2, None)
                await asyncio.sleep(0.01)
        await until(lambda: new.driver.agreed_configuration.voters == (1, 2))
        assert new.configurations[-1].voters == (1, 2)
        assert new.machine.entries == [b"a"]
        with pytest.raises(NoSuchOrderer):
            await change(old, "remove", 9, None)
        with pytest.raises(Unavailable, match="already a member"):
            await change(old, "add learner", 2, None)
        handed: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        old.driver.submit_transfer(Waiter(handed.set_result, handed.set_exception))
        twice: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        old.driver.submit_transfer(Waiter(twice.set_result, twice.set_exception))
        with pytest.raises(Unavailable, match="hands over already"):
            await twice
        await handed
        await until(lambda: new.driver.is_leader)
        await propose(new.driver, b"b")
        await change(new, "remove", 1, None)
        assert new.driver.agreed_configuration.voters == (2,)
        with pytest.raises(LastOrderer):
            await change(new, "remove", 2, None)
        alone: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        new.driver.submit_transfer(Waiter(alone.set_result, alone.set_exception))
        with pytest.raises(Unavailable, match="hears no other voter"):
            await alone
