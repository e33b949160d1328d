"""Who looks for a leader while there is none is kept for a moment, and told as soon as there is one."""

import asyncio
from pathlib import Path

import pytest
from tests.server.orderers import DEADLINE_S, client, cluster_file, orderers

from ithaca.engines.scalog.messages.order import GetTail, TailReply
from ithaca.protocol.greeting import Redirect
from ithaca.raft.events import Settings
from ithaca.server import leader_waits

PATIENT = Settings(election_timeout_ms=int(DEADLINE_S * 3000), heartbeat_ms=50, succession_ms=100)
"""An election because of silence would be too late for every test."""


async def test_a_request_during_an_election_is_answered_by_who_wins_it(tmp_path: Path) -> None:
    quick = Settings(election_timeout_ms=300, heartbeat_ms=50)
    async with orderers(cluster_file(orderers=3), tmp_path, quick) as group:
        old = await group.leader()
        others = sorted({1, 2, 3} - {old})
        for server in group.up.values():  # from here on only a broken connection makes anybody stand
            assert server._driver is not None
            server._driver._core.node.settings = PATIENT
            server._driver._core.node.reset_election_timer()
        async with client(group.address(others[0])) as one, client(group.address(others[1])) as two:
            await group.stop(old)
            async with asyncio.timeout(DEADLINE_S):
                answers = [(await each.request(GetTail())).message for each in (one, two)]
        (new,) = group.leading()
        assert new in others
        by_leader, by_other = answers if new == others[0] else reversed(answers)
        assert isinstance(by_leader, TailReply)
        assert isinstance(by_other, Redirect)
        assert by_other.leader == group.address(new)


async def test_whoever_waits_in_vain_is_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_waits, "LEADER_WAIT_S_MAX", 0.05)
    async with orderers(cluster_file(orderers=3), tmp_path) as group:
        await group.leader()
        await group.stop(1, 2)
        async with client(group.address(3)) as asking, asyncio.timeout(DEADLINE_S):
            while not isinstance(answer := (await asking.request(GetTail())).message, Redirect) or answer.leader:
                assert isinstance(answer, Redirect | TailReply)


async def test_too_many_are_turned_away_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_waits, "LEADER_WAITS_MAX", 1)
    monkeypatch.setattr(leader_waits, "LEADER_WAIT_S_MAX", 3 * DEADLINE_S)
    async with orderers(cluster_file(orderers=3), tmp_path, PATIENT) as group:
        await group.stop(1, 2)
        async with client(group.address(3)) as asking, asyncio.timeout(DEADLINE_S):
            both = [asyncio.ensure_future(asking.request(GetTail(), timeout=DEADLINE_S)) for _ in range(2)]
            answered, held = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            (answer,) = (each.result().message for each in answered)
            assert isinstance(answer, Redirect)
            assert answer.leader is None
            assert len(held) == 1
            held.pop().cancel()
