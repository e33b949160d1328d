"""What one seed is made of: its cluster, its load, its limits, its weather, and the faults that befall it.

Swarm testing: every seed leaves most faults out and exaggerates others, since a run with everything in it drowns
the odd combination in noise.
"""

from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from ithaca.model.cluster_config import ClusterFile, OrdererPlace, ReplicaPlace, ShardPlace
from ithaca.model.failure_config import NO_ANSWER, FailurePolicy
from ithaca.model.limits import KIB
from ithaca.model.records import Compression
from ithaca.model.view import Address
from ithaca.raft.events import Settings
from ithaca.sim.replacing import REPLACE, with_replacing

PORT = 7600

FAULTS = (
    "kill",
    "die-writing",
    "power",
    "blackout",
    "pause",
    "isolate",
    "cut",
    "one-way",
    "storm",
    "slow-disk",
    "full-disk",
    "failed-sync",
    "wipe",
    "flip",
    "clock",
    "stop",
    "client",
    "add-shard",
    "finalize",
    REPLACE,
)
"""Kinds of faults; `sim.faults` says what each does."""
_DRAWN = tuple(kind for kind in FAULTS if kind != REPLACE)


@dataclass(frozen=True)
class Configuration:
    """All that is drawn before a run begins; the rest is drawn on the way."""

    seed: int
    orderers: int
    shards: int
    replicas: int
    masking: bool
    troubled_s: float
    """How long faults go on."""
    producers: int
    readers: int
    faults: tuple[str, ...]
    fault_every_s: float
    pause_between_appends_s: float
    window: int
    records_max: int
    record_bytes_max: int
    trims: bool
    compression: Compression
    delay_ns: tuple[int, int]
    straggler: float
    split: float
    mischief: float
    segment_bytes: int
    snapshot_entries: int
    order_interval_us: int
    limits: dict[str, int] = field(default_factory=dict)
    takes_over: bool = False
    """Whether producers open their sessions anew in the middle of their work, and leave to the log what is there."""
    focus: str = "everybody"
    """Whom faults befall: `everybody`, `orderers` or `replicas`."""
    spares: int = 0
    """Shards whose servers run from the beginning, and wait to be added."""
    failures: FailurePolicy = NO_ANSWER
    pool: int = 0
    """Spares that wait to become replicas."""
    patience: float = 1.0
    """How long things stay broken, as a part of the usual: short enough, and there is work between the faults."""

    @property
    def f(self) -> int:
        """Replicas of a shard that may be lost."""
        return (self.replicas - 1) // 2 if self.masking else self.replicas - 1

    def cluster(self, spares: int = 0) -> ClusterFile:
        """The cluster's file, with so many of the spare shards in it."""
        addresses = iter(range(1, 1000))

        def place() -> Address:
            return Address(f"10.0.0.{next(addresses)}", PORT)

        return ClusterFile(
            name=f"seed {self.seed}",
            durability="fsync",
            order_interval_us=self.order_interval_us,
            segment_bytes=self.segment_bytes,
            orderers=tuple(OrdererPlace(server, place()) for server in range(1, self.orderers + 1)),
            shards=tuple(
                ShardPlace(
                    shard,
                    self.f,
                    self.masking,
                    tuple(ReplicaPlace(replica, place()) for replica in range(self.replicas)),
                )
                for shard in range(self.shards + spares)
            ),
            failures=self.failures,
            spares=tuple(Address(f"10.0.2.{number}", PORT) for number in range(1, self.pool + 1)),
        )

    def raft(self) -> Settings:
        return Settings(snapshot_entries=self.snapshot_entries, trailing_entries=max(1, self.snapshot_entries // 4))

    def text(self) -> str:
        """For people who look into a failure."""
        said: dict[str, Any] = asdict(self)
        return "\n".join(f"  {name:24} {value}" for name, value in said.items())


def configuration_of(seed: int) -> Configuration:
    """What this seed is made of.

    >>> configuration_of(7) == configuration_of(7)
    True
    """
    random = Random(f"configuration of {seed}")
    replicas = random.choice((1, 2, 2, 2, 3))
    many = random.sample(_DRAWN, random.randint(1, 5)) if random.random() < 0.9 else list(_DRAWN)
    faults = many if random.random() < 0.95 else []
    if "finalize" in faults and random.random() < 0.7 and "add-shard" not in faults:
        faults.append("add-shard")  # else there is soon nothing left to finalize
    if replicas == 1:  # nobody could repair it
        faults = [name for name in faults if name not in ("wipe", "flip", "failed-sync")]
    drawn = Configuration(
        seed=seed,
        orderers=random.choice((1, 3, 3, 3, 5)),
        shards=random.choice((1, 1, 2, 2, 3)),
        replicas=replicas,
        masking=replicas == 3 and random.random() < 0.5,
        troubled_s=random.uniform(4, 16),
        producers=random.randint(1, 3),
        readers=random.randint(1, 2),
        faults=tuple(sorted(faults)),
        fault_every_s=random.choice((0.2, 0.5, 1, 1)),
        pause_between_appends_s=random.choice((0.02, 0.1, 0.4)),
        window=random.choice((1, 1, 2, 4)),
        records_max=random.choice((1, 3, 20)),
        record_bytes_max=random.choice((40, 200, 3000)),
        trims=random.random() < 0.3,
        compression=random.choice(("none", "none", "lz4", "zstd")),
        delay_ns=random.choice(((20_000, 100_000), (50_000, 500_000), (100_000, 20_000_000))),
        straggler=random.choice((0, 0, 0.01)),
        split=random.choice((0, 0.1, 0.5)),
        mischief=random.choice((0, 0, 0.05)),
        segment_bytes=random.choice((4 * KIB, 16 * KIB, 64 * KIB)),
        snapshot_entries=random.choice((20, 200, 8192)),
        order_interval_us=random.choice((0, 0, 5_000)),
        limits={
            "ALLOCATE_AHEAD_BYTES": random.choice((3000, 64 * KIB)),
            "ZERO_AHEAD_BYTES": random.choice((1000, 16 * KIB)),
            "CHECKPOINT_BYTES": random.choice((900, 64 * KIB)),
            "INDEX_STRIDE_BYTES": random.choice((200, 8 * KIB)),
            "TAIL_CACHE_BYTES_MAX": random.choice((600, 64 * KIB)),
            "OPEN_SEGMENTS_MAX": random.choice((3, 64)),
            "RUNS_SYNC_CUTS": random.choice((1, 8, 256)),
            "RUNS_PAGES_CACHED_MAX": random.choice((2, 256)),
            "ORDERING_CUTS_UNSYNCED_MAX": random.choice((8, 256)),
            "INLINE_GROUP_BYTES_MAX": random.choice((0, 32 * KIB)),
            "INLINE_PAUSE_GROUPS": random.choice((4, 256)),
            "LANE_RECENT_BYTES_MAX": random.choice((8 * KIB, 256 * KIB)),
            "SEEN_RANGES_MAX": random.choice((4, 4096)),
            "READ_RUNS_MAX": random.choice((16, 1024)),
        },
        takes_over=random.random() < 0.3,
        focus=random.choice(("everybody", "everybody", "orderers", "replicas")),
        patience=random.choice((0.05, 0.2, 1)),
        spares=random.randint(1, 3) if "add-shard" in faults else 0,
    )
    return with_replacing(drawn)
