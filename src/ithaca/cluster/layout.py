"""The servers of a cluster: what each is called, where it listens, how it is started."""

import sys
from pathlib import Path

from ithaca.cluster.ports import LOOPBACK
from ithaca.engines import registry
from ithaca.engines.engine import UsualShard
from ithaca.model.config.cluster import AggregatorPlace, ClusterFile, OrdererPlace, ReplicaPlace, ShardPlace
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.limits import SEGMENT_BYTES_MAX
from ithaca.model.quorum import shard_f
from ithaca.model.records import Durability, Retention
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address


def has_shards(engine: EngineName) -> bool:
    """Whether clusters of this engine have replicas in shards; `ConfigError` for an engine that is not there."""
    return "replica" in registry.engine(engine).roles


def usual_shard(engine: EngineName) -> UsualShard:
    """The shards of clusters of this engine, unless somebody says otherwise."""
    return registry.engine(engine).usual_shard


def shard_notes(file: ClusterFile) -> list[str]:
    """What to know of shards as large as those of a file."""
    engine = registry.engine(file.engine)
    notes = (engine.shard_note(len(shard.replicas), masking=shard.masking) for shard in file.shards)
    return sorted({note for note in notes if note})


def servers_of(file: ClusterFile) -> list[ServerPlace]:
    """Every server that has been a part of the cluster from its beginning and was not removed: orderers, then
    replicas, then aggregators; of those that its engine has."""
    orderers = [ServerPlace("orderer", place.server, place.address) for place in file.orderers]
    replicas = [
        ServerPlace("replica", place.replica, place.address, shard.shard)
        for shard in file.shards
        for place in shard.replicas
        if place.address not in file.removed
    ]
    aggregators = [ServerPlace("aggregator", place.aggregator, place.address) for place in file.aggregators]
    roles = registry.engine(file.engine).roles
    return [place for place in orderers + replicas + aggregators if place.role in roles]


def orderers_of(file: ClusterFile) -> list[ServerPlace]:
    """The servers of the ordering layer that take part in consensus."""
    return [place for place in servers_of(file) if place.role == "orderer"]


def spares_of(file: ClusterFile) -> list[ServerPlace]:
    """The spares, those included that have become replicas; not those that were removed."""
    places = [ServerPlace("spare", number, address) for number, address in enumerate(file.spares, 1)]
    return [place for place in places if place.address not in file.removed]


def local_cluster(
    *,
    shards: int,
    replicas: int,
    orderers: int,
    ports: list[int],
    durability: Durability,
    aggregators: int = 0,
    engine: EngineName = DEFAULT_ENGINE,
    masking: bool = False,
    retention: Retention | None = None,
) -> ClusterFile:
    """A cluster on the loopback interface; orderers get the first ports, then replicas, shard by shard, then
    aggregators. There are no shards if the engine has none. `ConfigError` for what the engine does not allow."""
    assert len(ports) == orderers + shards * replicas + aggregators
    if not has_shards(engine):
        shards = aggregators = 0
    addresses = iter([Address(LOOPBACK, port) for port in ports])
    file = ClusterFile(
        name="local",
        engine=engine,
        durability=durability,
        order_interval_us=0,
        segment_bytes=SEGMENT_BYTES_MAX,
        orderers=tuple(OrdererPlace(server, next(addresses)) for server in range(1, orderers + 1)),
        shards=tuple(
            ShardPlace(
                shard,
                shard_f(replicas, masking),
                masking,
                tuple(ReplicaPlace(number, next(addresses)) for number in range(replicas)),
            )
            for shard in range(shards)
        ),
        retention=retention,
        aggregators=tuple(AggregatorPlace(number, next(addresses)) for number in range(1, aggregators + 1)),
    )
    registry.check(file)
    return file


def bootstrap_of(file: ClusterFile) -> str:
    """What clients are told to connect to."""
    return ",".join(str(place.address) for place in file.orderers)


def serve_command(directory: Path, place: ServerPlace) -> list[str]:
    """The command that runs one server of the cluster in `directory`."""
    # -P: a directory called ithaca where the user happens to be must not be run instead.
    python = [sys.executable, "-P", "-m", "ithaca", "serve"]
    where = ["--config", str(directory / "cluster.toml")]
    if place.role != "aggregator":  # which keeps no data
        where += ["--dir", str(directory / place.name)]
    return [*python, *where, *place.arguments]
