"""What one seed is made of: its cluster, its load, its limits, its weather, and the faults that befall it.

Swarm testing: every seed leaves most faults out and exaggerates others, since a run with everything in it drowns
the odd combination in noise.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any

from ithaca.model.config.cluster import AggregatorPlace, ClusterFile, OrdererPlace, ReplicaPlace, ShardPlace
from ithaca.model.config.failures import NO_ACTION, FailurePolicy
from ithaca.model.config.slots import USUAL_SLOTS, SlotSettings
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.limits import KIB
from ithaca.model.quorum import shard_f
from ithaca.model.records import Compression, Retention
from ithaca.model.view import Address
from ithaca.proof import payload
from ithaca.raft.events import Settings
from ithaca.raft.limits import RAFT_APPEND_ENTRIES_MAX
from ithaca.sim.clients.consumers import with_consumers
from ithaca.sim.clients.groups import with_groups
from ithaca.sim.clients.outsiders import SimulatedUsers, with_users
from ithaca.sim.clients.taking import with_writing
from ithaca.sim.engine import simulated
from ithaca.sim.faults.replacing import REPLACE
from ithaca.sim.faults.running import RUNNING_FAULTS
from ithaca.sim.faults.scripted import SCRIPTED_FAULTS
from ithaca.sim.faults.shards import FINALIZE_UNHEARD

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
    "split",
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
)
"""The kinds of faults that every seed draws from; `sim.faults` says what each does."""
MEMBER_FAULTS = ("add-orderer", "remove-orderer", "lose-orderer")
"""Those of orderers that come and go (`sim.faults.members`); they are drawn apart from the others."""
SHARED_FAULTS = (*FAULTS, REPLACE, FINALIZE_UNHEARD, *MEMBER_FAULTS, *SCRIPTED_FAULTS, *RUNNING_FAULTS)
"""All that do not depend on the engine; some engines do not have all of them."""


TROUBLED_EVENTS_MAX = 20_000
"""Of the troubled phase, unless more are drawn."""


@dataclass(frozen=True)
class Configuration:
    """All that is drawn before a run begins; the rest is drawn on the way.

    What an engine does not have keeps its default.
    """

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
    append_entries: int
    """What one message of Raft carries at most."""
    order_interval_us: int
    engine: EngineName = DEFAULT_ENGINE
    limits: dict[str, int] = field(default_factory=dict)
    takes_over: bool = False
    """Whether producers open their sessions again in the middle of their work, and leave to the log what is there."""
    heartbeat_ms: int = 100
    """How often a leader makes sure that it still leads: the less often, the longer it may be wrong."""
    is_patient: bool = False
    """Whether producers wait for as long as it takes, and do not begin again."""
    focus: str = "everybody"
    """Whom faults befall: `everybody`, `orderers`, `replicas` or `aggregators`."""
    spares: int = 0
    """Shards whose servers run from the beginning, and wait to be added."""
    aggregators: tuple[int, ...] = ()
    """The level of each."""
    failures: FailurePolicy = NO_ACTION
    pool: int = 0
    """Spares that wait to become replicas."""
    files_end: bool = False
    """Whether scans lose the files that they read (`sim.scanning`)."""
    edge_readers: int = 0
    """Readers that ask at both ends of the log (`sim.clients.edge_reader`)."""
    publishers: int = 0
    """Clients that prepare parts and publish them."""
    spare_orderers: int = 0
    """Orderers that run from the beginning, and wait to be added."""
    retires: bool = False
    """Whether orderers are stopped once they were removed. Then everybody knows of all that there are at the end;
    else clients and replicas begin with those that founded the log."""
    snapshot_chunk_bytes: int = 100
    """So small that snapshots of the order take several."""
    patience: float = 1.0
    """How long things stay broken, as a part of the usual: short enough, and there is work between the faults."""
    retention_age_s: int = 0
    """How old records may become; 0: as old as they like."""
    claimants: int = 0
    """Clients that take names until the state is full (`sim.clients.name_claimant`)."""
    session_churners: int = 0
    """Clients with short-lived handles and with names that they seldom use (`sim.clients.session_churn`)."""
    session_idle_s: int = 0
    """After how long an idle session expires; 0: never."""
    drivers: int = 0
    """Clients that do as Spark's sink does (`sim.clients.spark_drivers`)."""
    consumers: int = 0
    """Programs of one named consumer (`sim.clients.consumers`)."""
    users: bool = False
    """Whether the cluster has users, some of whom may do little (`sim.clients.outsiders`)."""
    ordinary: tuple[str, ...] = ()
    """Kinds of programs that are users with the rights that they need, and no others."""
    group_members: int = 0
    """Programs that are members of one group (`sim.clients.groups`)."""
    takers_write: bool = False
    """Whether consumers and members write a record for each that they take (`sim.clients.taking`)."""
    flood: int = 0
    """Connections that clients who want nothing have to a server, now and then."""
    troubled_events_max: int = TROUBLED_EVENTS_MAX
    """The trouble ends with these, if that is sooner."""
    slots: SlotSettings = USUAL_SLOTS
    """How the order is fixed before (`sim.belfast`)."""

    @property
    def f(self) -> int:
        """Replicas of a shard that may be lost."""
        return shard_f(self.replicas, self.masking)

    def cluster(self, spares: int = 0, spare_orderers: int = 0) -> ClusterFile:
        """The cluster's file, with so many of the spare shards and orderers in it."""
        addresses = iter(range(1, 1000))

        def place() -> Address:
            return Address(f"10.0.0.{next(addresses)}", PORT)

        return ClusterFile(
            name=f"seed {self.seed}",
            engine=self.engine,
            durability="fsync",
            order_interval_us=self.order_interval_us,
            segment_bytes=self.segment_bytes,
            slots=self.slots,
            users=SimulatedUsers() if self.users else None,
            orderers=(
                *(OrdererPlace(server, place()) for server in range(1, self.orderers + 1)),
                *(
                    OrdererPlace(self.orderers + each, Address(f"10.0.2.{each}", PORT), joining=True)
                    for each in range(1, spare_orderers + 1)
                ),
            ),
            shards=tuple(
                ShardPlace(
                    shard,
                    self.f,
                    self.masking,
                    tuple(ReplicaPlace(replica, place()) for replica in range(self.replicas)),
                )
                for shard in range(self.shards + spares)
            ),
            aggregators=tuple(
                AggregatorPlace(number, Address(f"10.0.3.{number}", PORT), level)
                for number, level in enumerate(self.aggregators, 1)
            ),
            failures=self.failures,
            retention=Retention(age=timedelta(seconds=self.retention_age_s)) if self.retention_age_s else None,
            session_idle_s=self.session_idle_s or None,
            spares=tuple(Address(f"10.0.4.{number}", PORT) for number in range(1, self.pool + 1)),
        )

    def with_some(self, random: Random, kinds: Sequence[str]) -> "Configuration":
        """The same with one of these faults, or several; without more where there is none to choose from."""
        more = random.sample(kinds, random.randint(min(1, len(kinds)), len(kinds)))
        return replace(self, faults=tuple(sorted([*self.faults, *more])))

    def raft(self) -> Settings:
        return Settings(
            snapshot_entries=self.snapshot_entries,
            trailing_entries=max(1, self.snapshot_entries // 4),
            append_entries_max=self.append_entries,
            snapshot_chunk_bytes=self.snapshot_chunk_bytes,
            heartbeat_ms=self.heartbeat_ms,
        )

    def text(self) -> str:
        """For people who look into a failure."""
        said: dict[str, Any] = asdict(self)
        return "\n".join(f"  {name:24} {value}" for name, value in said.items())


def configuration_of(seed: int, engine: EngineName = DEFAULT_ENGINE) -> Configuration:
    """What this seed is made of.

    >>> configuration_of(7) == configuration_of(7)
    True
    """
    added = simulated(engine)
    shared = _shared(seed, engine, tuple(kind for kind in FAULTS if kind in added.faults))
    return with_users(with_writing(added.draw(with_groups(with_consumers(shared)))))


def _shared(seed: int, engine: EngineName, kinds: tuple[str, ...]) -> Configuration:
    """What is drawn for every engine, with faults of these kinds."""
    random = Random(f"configuration of {seed}")
    member_faults, spare_orderers, retires = _members_of(seed)
    replicas = random.choice((1, 2, 2, 2, 3))
    many = random.sample(kinds, random.randint(1, 5)) if random.random() < 0.9 else list(kinds)
    faults = many if random.random() < 0.95 else []
    if "finalize" in faults and random.random() < 0.7 and "add-shard" not in faults:
        faults.append("add-shard")  # else there is soon nothing left to finalize
    if replicas == 1:  # nobody could repair it
        faults = [name for name in faults if name not in ("wipe", "flip", "failed-sync")]
    return Configuration(
        seed=seed,
        engine=engine,
        orderers=random.choice((1, 3, 3, 3, 5)),
        shards=random.choice((1, 1, 2, 2, 3)),
        replicas=replicas,
        masking=replicas == 3 and random.random() < 0.5,
        troubled_s=random.uniform(4, 16),
        producers=random.randint(1, 3),
        readers=random.randint(1, 2),
        faults=tuple(sorted([*faults, *member_faults])),
        fault_every_s=random.choice((0.2, 0.5, 1, 1)),
        pause_between_appends_s=random.choice((0.02, 0.1, 0.4)),
        window=random.choice((1, 1, 2, 4)),
        records_max=random.choice((1, 3, 20)),
        record_bytes_max=random.choice((payload.HEAD_BYTES, 200, 3000)),
        trims=random.random() < 0.4,
        compression=random.choice(("none", "none", "lz4", "zstd")),
        delay_ns=random.choice(((20_000, 100_000), (50_000, 500_000), (100_000, 20_000_000))),
        straggler=random.choice((0, 0, 0.01)),
        split=random.choice((0, 0.1, 0.5)),
        mischief=random.choice((0, 0, 0.05)),
        segment_bytes=random.choice((KIB, 4 * KIB, 16 * KIB, 64 * KIB)),
        snapshot_entries=random.choice((20, 200, 8192)),
        append_entries=random.choice((2, 16, RAFT_APPEND_ENTRIES_MAX)),
        order_interval_us=random.choice((0, 0, 5_000)),
        limits=_limits(random),
        takes_over=random.random() < 0.3,
        is_patient=random.random() < 0.25,
        focus=random.choice(("everybody", "everybody", "orderers", "replicas")),
        spare_orderers=spare_orderers,
        retires=retires,
        patience=random.choice((0.05, 0.2, 1)),
        spares=random.randint(1, 3) if "add-shard" in faults else 0,
        publishers=random.choice((0, 1, 1, 2)),
        heartbeat_ms=450 if random.random() < 0.25 else 100,
    )


def _limits(random: Random) -> dict[str, int]:
    """Limits that are soon reached; one that an engine does not have changes nothing."""
    return {
        "ALLOCATE_AHEAD_BYTES": random.choice((3000, 64 * KIB)),
        "ZERO_AHEAD_BYTES": random.choice((1000, 16 * KIB)),
        "CHECKPOINT_BYTES": random.choice((900, 64 * KIB)),
        "INDEX_STRIDE_BYTES": random.choice((200, 8 * KIB)),
        "TAIL_CACHE_BYTES_MAX": random.choice((6000, 512 * KIB)),
        "OPEN_SEGMENTS_MAX": random.choice((3, 64)),
        "RUNS_SYNC_CUTS": random.choice((1, 8, 256)),
        "RUNS_PAGES_CACHED_MAX": random.choice((2, 256)),
        "ORDERING_CUTS_UNSYNCED_MAX": random.choice((8, 256)),
        "INLINE_GROUP_BYTES_MAX": random.choice((0, 32 * KIB)),
        "INLINE_AVERAGED_GROUPS": random.choice((4, 256)),
        "LANE_RECENT_BYTES_MAX": random.choice((32 * KIB, 1024 * KIB)),
        "SEEN_RANGES_MAX": random.choice((4, 4096)),
        "READ_RUNS_MAX": random.choice((16, 1024)),
    }


def _members_of(seed: int) -> tuple[list[str], int, bool]:
    """What befalls the group of orderers, how many spare ones there are, and whether those that go are stopped."""
    random = Random(f"orderers of {seed}")
    if random.random() < 0.75:
        return [], 0, False
    faults = random.sample(MEMBER_FAULTS, random.randint(1, len(MEMBER_FAULTS)))
    return faults, random.randint(1, 4), "lose-orderer" in faults or random.random() < 0.5
