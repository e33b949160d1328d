"""Changes of the cluster itself, while clients use it: shards that come and go, replicas that are replaced."""

from contextlib import AbstractAsyncContextManager
from typing import ClassVar

import ithaca.aio
from ithaca.model.interface_aio import Admin, ClusterLog
from ithaca.torture.client import TIMEOUT_S
from ithaca.torture.injectors import Injector, Scene, Struck
from ithaca.torture.plan import Fault, Strike
from ithaca.torture.process_faults import Kill
from ithaca.torture.tormented import Shape, Tormented


class AddShard(Injector):
    """Spares become a new shard."""

    fault: ClassVar[Fault] = Fault("addshard", "all", recovery_s=1.0)

    @classmethod
    def spares(cls, shape: Shape) -> int:
        return shape.replicas

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        async with _connected(scene.cluster) as log:
            struck(f"shard {await _add(scene.cluster, log.admin)}")


class Finalize(Injector):
    """A shard is finalized, at once or with a grace; if it is the last one, another is added first."""

    fault: ClassVar[Fault] = Fault("finalize", "all", recovery_s=1.0, variants=("at once", "with a grace"))

    @classmethod
    def spares(cls, shape: Shape) -> int:
        return shape.replicas

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        grace_cuts, grace = (20, 0.3) if strike.variant == "with a grace" else (0, 0.0)
        async with _connected(scene.cluster) as log:
            live = [each.shard for each in await log.admin.shards() if each.phase == "live"]
            if len(live) == 1:
                await _add(scene.cluster, log.admin)
            await log.admin.finalize_shard(live[0], grace_cuts=grace_cuts, grace=grace)
            struck(f"shard {live[0]}")


class Replace(Injector):
    """A spare takes the place of a replica, of one that works or of one that was just killed."""

    fault: ClassVar[Fault] = Fault("replace", "all", variants=("alive", "killed"))

    @classmethod
    def spares(cls, shape: Shape) -> int:
        return 1

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        cluster = scene.cluster
        async with _connected(cluster) as log:
            shards = [each for each in await log.admin.shards() if each.phase == "live"]
            shard = shards[strike.round % len(shards)]
            replica = shard.replicas[strike.round % len(shard.replicas)]
            old, (spare,) = cluster.name_of(replica.address), cluster.take_spares(1)
            if strike.variant == "killed":
                await Kill().strike(scene, Strike(0, 0, "kill", (old,), 0, ""), lambda what: None)
            await log.admin.replace_replica(shard.shard, replica.replica, str(cluster.routes[spare][0]))
            cluster.stand_ins[old] = spare
            struck(f"{shard.shard}/{replica.replica} by {spare}")


async def _add(cluster: Tormented, admin: Admin) -> int:
    names = cluster.take_spares(cluster.shape.replicas)
    return await admin.add_shard([str(cluster.routes[name][0]) for name in names], masking=cluster.shape.masking)


def _connected(cluster: Tormented) -> AbstractAsyncContextManager[ClusterLog]:
    return ithaca.aio.connect(cluster.bootstrap, timeout=TIMEOUT_S)
