"""Aggregators while orderers come and go: they learn of it, pass it on, and find leaders that no file names."""

from pathlib import Path

from tests.server.aggregators import aggregating
from tests.server.orderer_changes import added, changed
from tests.server.orderers import FakeReplica, Orderers, joined, until

from ithaca.engines.scalog.server.aggregator.server import AggregatorServer
from ithaca.protocol.members import OrderersAre, RemoveOrderer


def known(server: AggregatorServer) -> list[str]:
    addresses: list[str] = server.status()["orderers"]["addresses"]
    return addresses


def places(group: Orderers, *numbers: int) -> list[str]:
    return [str(group.address(number)) for number in numbers]


async def test_whoever_is_below_hears_of_a_new_orderer(tmp_path: Path) -> None:
    """Also the aggregators that carry nobody."""
    async with aggregating(tmp_path, 1, 1, 2, spares=1) as (group, _, servers):
        for server in servers.values():
            assert known(server) == places(group, 1)
        replica = FakeReplica(0, 0)
        async with joined(servers[2].address, [replica]):
            assert replica.joined.orderers.addresses == (group.address(1),)
            await added(group, 2)
            for server in servers.values():
                await until(lambda server=server: known(server) == places(group, 1, 2))  # type: ignore[misc]
            mailbox = replica.mailbox
            assert mailbox is not None
            await until(lambda: any(isinstance(each, OrderersAre) for each in mailbox.messages))
            told = [each for each in mailbox.messages if isinstance(each, OrderersAre)]
            assert told[-1].orderers.addresses == (group.address(1), group.address(2))


async def test_an_aggregator_attaches_to_a_leader_that_its_file_does_not_name(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1, spares=1) as (group, _, servers):
        await added(group, 2)
        await until(lambda: known(servers[1]) == places(group, 1, 2))
        await changed(group, RemoveOrderer(1))
        await group.stop(1)
        await until(lambda: servers[1].status()["attached_to"] == str(group.address(2)))
        assert known(servers[1]) == places(group, 2)
        replica = FakeReplica(0, 0)
        async with joined(servers[1].address, [replica]):
            assert replica.joined.orderers.addresses == (group.address(2),)
