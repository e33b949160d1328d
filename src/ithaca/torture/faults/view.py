"""Changes of the cluster itself, while clients use it: shards that come and go, replicas that are replaced."""

import signal
from contextlib import AbstractAsyncContextManager
from typing import ClassVar

import ithaca.aio
from ithaca.cluster.temporary import Shape
from ithaca.model.engine import Feature
from ithaca.model.interface.awaited import Admin, ClusterLog
from ithaca.torture.clients.client import TIMEOUT_S
from ithaca.torture.cluster_under_test import ClusterUnderTest
from ithaca.torture.faults.injectors import Injector, Scene, Struck
from ithaca.torture.faults.process import ended
from ithaca.torture.plan import Fault, Strike
from ithaca.torture.proxy import party


class AddShard(Injector):
    """Spares become a new shard."""

    fault: ClassVar[Fault] = Fault("addshard", "all", recovery_s=1.0)
    needs: ClassVar[Feature | None] = Feature.SHARDS

    @classmethod
    def spares(cls, shape: Shape) -> int:
        return shape.replicas

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        async with _connected(scene.cluster) as log:
            shard, _ = await _add(scene, log.admin)
            struck(f"shard {shard}")


class Finalize(Injector):
    """A shard is finalized, at once or with a grace, after another was added.

    From then on the new one is struck in its place: nothing is written to a shard that was finalized, and little read,
    so that most faults would have no effect there.
    """

    fault: ClassVar[Fault] = Fault("finalize", "all", recovery_s=1.0, variants=("at once", "with a grace"))
    needs: ClassVar[Feature | None] = Feature.SHARDS

    @classmethod
    def spares(cls, shape: Shape) -> int:
        return shape.replicas

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        grace_cuts, grace = (20, 0.3) if strike.variant == "with a grace" else (0, 0.0)
        cluster = scene.cluster
        async with _connected(cluster) as log:
            oldest = next(each for each in await log.admin.shards() if each.phase == "live")
            _, added = await _add(scene, log.admin)
            await log.admin.finalize_shard(oldest.shard, grace_cuts=grace_cuts, grace=grace)
            for replica, name in zip(oldest.replicas, added, strict=False):
                cluster.stand_ins[cluster.name_of(replica.address)] = name
            struck(f"shard {oldest.shard}")


class Replace(Injector):
    """A spare takes the place of a replica, of one that works or of one that was just killed."""

    fault: ClassVar[Fault] = Fault("replace", "replica", variants=("alive", "killed"), alone=True)
    needs: ClassVar[Feature | None] = Feature.REPLICAS

    @classmethod
    def spares(cls, shape: Shape) -> int:
        return 1

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        cluster = scene.cluster
        async with _connected(cluster) as log:
            (target,) = await scene.servers(strike)
            found = [
                (shard.shard, each.replica, cluster.name_of(each.address))
                for shard in await log.admin.shards()
                for each in shard.replicas
            ]
            # The shard of the target may be gone: it was finalized, and trimmed.
            shard, replica, old = next((each for each in found if each[2] == target), found[-1])
            (spare,) = cluster.take_spares(1)
            if strike.variant == "killed":
                await ended(cluster, old, cluster.signal(old, signal.SIGKILL))
            number = await log.admin.replace_replica(shard, replica, str(cluster.routes[spare][0]))
            scene.network.calls_itself(spare, party("replica", f"{shard}/{number}"))
            cluster.stand_ins[old] = spare
            struck(f"{shard}/{replica} by {spare}")


async def _add(scene: Scene, admin: Admin) -> tuple[int, list[str]]:
    """The number of a new shard, and the spares that are its replicas."""
    cluster = scene.cluster
    names = cluster.take_spares(cluster.shape.replicas)
    addresses = [str(cluster.routes[name][0]) for name in names]
    shard = await admin.add_shard(addresses, masking=cluster.shape.masking)
    for number, name in enumerate(names):
        scene.network.calls_itself(name, party("replica", f"{shard}/{number}"))
    return shard, names


def _connected(cluster: ClusterUnderTest) -> AbstractAsyncContextManager[ClusterLog]:
    return ithaca.aio.connect(cluster.bootstrap, timeout=TIMEOUT_S)
