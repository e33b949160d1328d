"""Changes of the cluster itself, as an operator asks for them: shards that come and go, replicas that are replaced."""

from typing import TYPE_CHECKING

from ithaca.sim.clients.administrator import Replacement, Task
from ithaca.sim.faults.replacing import REPLACE
from ithaca.sim.faults.targets import FaultGroup, Targets, is_destroyed
from ithaca.sim.host import Host

if TYPE_CHECKING:
    from ithaca.sim.world import World

FINALIZE_UNHEARD = "finalize-unheard"
_UNHEARD_S = (1.0, 6.0)


class ShardFaults(FaultGroup):
    """What the administrator is asked for."""

    def __init__(self, world: "World", targets: Targets) -> None:
        super().__init__(world, targets)
        self.kinds = {
            "add-shard": self._add_shard,
            "finalize": self._finalize,
            FINALIZE_UNHEARD: self._finalize_unheard,
            REPLACE: self._replace_replica,
        }

    def _add_shard(self) -> str | None:
        administrator = self._world.administrator
        places = [each.shard for each in self._world.whole_file.shards if each.shard not in administrator.registered]
        if not places:
            return None
        administrator.ask(Task(places[0], is_new=True))
        return f"{places[0]}"

    def _finalize(self) -> str | None:
        """Ask for it; the last shard that takes appends is not finalized."""
        administrator = self._world.administrator
        shards = sorted(administrator.registered - administrator.leaving)
        if len(shards) < 2:
            return None
        task = Task(self._random.choice(shards), is_new=False, waits=self._random.random() < 0.7)
        if self._random.random() < 0.5:
            task.grace_cuts, task.grace_s = self._random.randint(0, 30), self._random.choice((0.0, 0.3, 1.0))
        administrator.ask(task)
        return f"{task.shard}, with a grace of {task.grace_cuts} cuts and {task.grace_s} s"

    def _finalize_unheard(self) -> str | None:
        """A shard is finalized while its replicas hear nothing of the order: what they have reported is ordered, and
        nobody is told. The sessions that lived there ask for it later, and move to another shard.
        """
        world, administrator = self._world, self._world.administrator
        shards = sorted(administrator.registered - administrator.leaving)
        hosts = [(shard, world.hosts_of(shard)) for shard in shards]
        there = [(shard, members) for shard, members in hosts if members and all(host.is_up for host in members)]
        if len(shards) < 2 or not there:
            return None
        shard, members = self._random.choice(there)
        tellers = [host for host in world.hosts.values() if not host.is_storage]
        heal = self._targets.cut([(teller, member) for teller in tellers for member in members])
        self._targets.after(self._random.uniform(*_UNHEARD_S), heal)
        administrator.ask(Task(shard, is_new=False, grace_s=self._random.choice((0.0, 0.5)), meddles=True))
        return f"{shard}, unheard by {', '.join(host.name for host in members)}"

    def _replace_replica(self) -> str | None:
        """A host is given up, perhaps with all that is on it; one that waits takes its place."""
        world, administrator = self._world, self._world.administrator
        spares = [host for host in world.hosts.values() if host.place and host.place.role == "spare"]
        free = [host for host in spares if not administrator.has_used(host.name) and not self._is_member(host)]
        shards = [
            shard
            for shard in world.view.shards
            if len(shard.replicas) == shard.size > 1
            and not administrator.is_replacing(shard.shard)
            and not any(is_destroyed(host) for host in world.hosts_of(shard.shard))
        ]
        if not free or not shards:
            return None
        shard, spare = self._random.choice(shards), self._random.choice(free)
        old = self._random.choice(shard.replicas)
        administrator.replace(Replacement(shard.shard, old.replica, spare))
        if self._random.random() < 0.5:
            host = next(each for each in world.hosts_of(shard.shard) if each.address == old.address.host)
            world.kill(host, "it is given up")
        return f"{shard.shard}/{old.replica} by {spare.name}"

    def _is_member(self, host: Host) -> bool:
        addresses = {each.address.host for shard in self._world.view.shards for each in shard.replicas}
        return host.address in addresses
