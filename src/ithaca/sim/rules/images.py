"""Power fails everywhere at once, in a copy: what was acknowledged must be on the disks that promise it.

The world goes on as if nothing had happened. A record is acknowledged once so many servers have synced it (`Group`), so
at every moment as many images of their disks hold it; those are excused whose data was destroyed on purpose. This is
looked at now and then, and when a shard gets a replica: one that has not copied everything is none.
"""

from collections import Counter
from random import Random

from ithaca.model.errors import Corrupt
from ithaca.model.view import View
from ithaca.proof.history import Id
from ithaca.sim.faults.targets import is_destroyed
from ithaca.sim.host import Host
from ithaca.sim.violation import Violation
from ithaca.sim.world import World


def check_images(world: World, random: Random) -> None:
    """Look at what all replicas would hold if the power failed now."""
    world.count("images looked at")
    for shard, hosts, copies in world.simulation.groups():
        if copies is None:
            continue
        held: Counter[Id] = Counter()
        excused = 0
        for host in hosts:
            if is_destroyed(host):
                excused += 1
            else:
                held.update(_ids(host, random))
        wanted = copies - excused
        for record, (of_shard, position) in world.recorder.placed.items():
            if of_shard == shard and position >= world.recorder.trimmed and held[record] < wanted:
                raise Violation(
                    "durable-images",
                    f"{record[0]}/{record[1]}, acknowledged at position {position}, is on {held[record]} of "
                    f"{len(hosts)} disks of shard {shard} after a power loss, not on {wanted}",
                )


def has_new_replica(before: View, now: View) -> bool:
    """Whether a shard that was there has a replica that it did not have."""
    former = {shard.shard: {each.replica for each in shard.replicas} for shard in before.shards}
    return any(
        {each.replica for each in shard.replicas} - former[shard.shard] for shard in now.shards if shard.shard in former
    )


def _ids(host: Host, random: Random) -> set[Id]:
    try:
        return host.world.simulation.held_ids(host.disk.image(random), host.directory)
    except Corrupt as error:
        raise Violation("sound-disks", f"a power loss would damage {host.name}: {error}") from error
