"""Prepared parts of replicas that report through aggregators."""

import asyncio
from pathlib import Path

import pytest
from tests.server.aggregators import aggregating
from tests.server.orderers import FakeReplica, client, joined, propose

from ithaca.engines.scalog.messages.appending import FinishPart
from ithaca.engines.scalog.messages.order import Applied
from ithaca.engines.scalog.ordering.prepared.entries import AbortParts, OpenPart, Publish
from ithaca.engines.scalog.ordering.prepared.outcomes import PartDropped, PartOpened, PartSealed, PartsPublished
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.server.aggregator import relay
from ithaca.model.cut import ShardCut
from ithaca.model.limits import PART_INCARNATION_MIN
from ithaca.model.parts import Published
from ithaca.model.positions import LaneId

HOUR_US = 3_600_000_000
TOKENS = [bytes([number]) * 16 for number in range(3)]


async def runs_of(replica: FakeReplica) -> list[tuple[LaneId, int, int]]:
    """Of the next cut that has some."""
    while not (runs := (await replica.hear(ShardCut)).runs):
        pass
    return [(run.lane, run.position, run.count) for run in runs]


@pytest.mark.parametrize("levels", [(1,), (1, 2)])
async def test_parts_are_opened_sealed_published_and_dropped_through_aggregators(
    tmp_path: Path, levels: tuple[int, ...]
) -> None:
    """Two shards, published against the order of their lanes."""
    async with aggregating(tmp_path, *levels, shards=2) as (_, leader, servers):
        shards = [[FakeReplica(shard, replica) for replica in (0, 1)] for shard in (0, 1)]
        parts = [LaneId(shard, 0, PART_INCARNATION_MIN) for shard in (0, 1)]
        async with joined(servers[1].address, [*shards[0], *shards[1]]), client(leader) as asking:
            for (one, two), part, token in zip(shards, parts, TOKENS, strict=False):
                [opened] = await propose(leader, OpenPart(one.lane, token, HOUR_US))
                assert isinstance(opened, PartOpened)
                assert (await two.hear(PartOpened)).part == opened.part
                finishing = asyncio.create_task(asking.request(FinishPart(part, token, 3)))
                one.report({part: 3})
                two.report({part: 3})
                assert (await finishing).message == Applied((PartSealed(part, 3),))
                assert (await two.hear(PartSealed)).length == 3
            publish = Publish("w", 1, "", ((parts[1], TOKENS[1]), (parts[0], TOKENS[0])))
            assert await propose(leader, publish) == (PartsPublished(Published("w", 1, "", 1, 6)),)
            assert await runs_of(shards[0][1]) == [(parts[0], 4, 3)]
            assert await runs_of(shards[1][1]) == [(parts[1], 1, 3)]
            [opened] = await propose(leader, OpenPart(shards[0][0].lane, TOKENS[2], HOUR_US))
            assert isinstance(opened, PartOpened)
            await propose(leader, AbortParts(((opened.part.lane, TOKENS[2]),)))
            assert (await shards[0][1].hear(PartDropped)).lane == opened.part.lane


def test_reports_of_many_parts_go_up_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "REPORT_LANES_MAX", 5)
    monkeypatch.setattr(relay, "REPORTS_TOGETHER_MAX", 3)

    def report(replica: int, lanes: int) -> Report:
        return Report(0, 1, replica, 1, 0, tuple((LaneId(0, 0, each), 1) for each in range(1, lanes + 1)))

    reports = [report(replica, lanes) for replica, lanes in enumerate((2, 3, 1, 5, 0, 0, 0, 7))]
    messages = list(relay._fitting(reports))
    assert [[each.replica for each in message] for message in messages] == [[0, 1], [2], [3, 4, 5], [6], [7]]
    assert list(relay._fitting([])) == []
