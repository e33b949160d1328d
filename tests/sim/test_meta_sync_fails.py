"""A replica that cannot sync what it must remember of itself ends, and does not try again."""

from dataclasses import replace

from ithaca.engines.scalog.server.replica.server import ReplicaServer
from ithaca.server.process import FENCED
from ithaca.sim.configuration import configuration_of
from ithaca.sim.run import EVENTS_MAX
from ithaca.sim.world import World


def test_a_failed_sync_of_the_log_that_it_belongs_to_fences_a_replica() -> None:
    with World(replace(configuration_of(3), faults=())) as world:
        host = world.hosts["shard-0-replica-0"]
        for each in world.hosts.values():
            world.start(each)

        def goes_on_until_fenced() -> bool:
            if isinstance(host.server, ReplicaServer) and hasattr(host.server, "core") and host.lives == 1:
                host.disk.fail_next_sync(f"{host.directory}/meta.new")
            return world.counts[f"server ended with {FENCED}"] > 0

        assert world.run_until(goes_on_until_fenced, within_s=30, events_max=EVENTS_MAX, check=lambda _: None), (
            world.counts
        )
