"""What every system is asked to do, by name.

The sizes and numbers of clients of the comparison of 2022 (its Tables 1 to 8: 100 B, 50 KB and 1 MB, one by one; 4 and
8 producers and consumers of 50 KB), and those that fill a machine: records in flight, batches, an open loop.
"""

from dataclasses import dataclass
from typing import Final, Literal

from ithaca.bench.cluster.producers import Plan
from ithaca.bench.compare.work import Role

Kind = Literal["append", "pace", "follow", "read", "random"]
KB: Final = 1000
MB: Final = 1000 * KB
FILL_BYTES: Final = 64 * MB
FILL_RECORDS_MAX: Final = 200_000
RANDOM_FILL_RECORDS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Workload:
    """`clients` processes, each with `window` batches of `batch` records in flight; one more follows, if any does."""

    name: str
    title: str
    kind: Kind
    record_bytes: int
    batch: int = 1
    window: int = 1
    clients: int = 1
    quick: bool = False

    @property
    def plan(self) -> Plan:
        return Plan(self.record_bytes, self.batch, self.window)

    @property
    def is_filled(self) -> bool:
        """Whether somebody fills the log before the clients begin."""
        return self.kind in ("read", "random")

    @property
    def roles(self) -> tuple[Role, ...]:
        """Those of the clients."""
        role: Role = "read" if self.is_filled else "append"
        roles = (role,) * self.clients
        return (*roles, "read") if self.kind == "follow" else roles

    @property
    def processes(self) -> int:
        return len(self.roles) + self.is_filled

    @property
    def fill_records(self) -> int:
        """Records to read: the random ones come from fewer, all of them in memory either way."""
        fitting = FILL_BYTES // self.record_bytes
        return min(fitting, RANDOM_FILL_RECORDS if self.kind == "random" else FILL_RECORDS_MAX)


WORKLOADS: Final = (
    Workload("one-100b", "100 B, one by one", "append", 100, quick=True),
    Workload("one-50kb", "50 KB, one by one", "append", 50 * KB),
    Workload("one-1mb", "1 MB, one by one", "append", MB),
    Workload("flight-100b", "100 B, 1,024 in flight", "append", 100, window=1024, quick=True),
    Workload("flight-4kb", "4 KB, 1,024 in flight", "append", 4096, window=1024, quick=True),
    Workload("flight-50kb", "50 KB, 64 in flight", "append", 50 * KB, window=64),
    Workload("flight-1mb", "1 MB, 8 in flight", "append", MB, window=8, quick=True),
    Workload("batch-100b", "100 B in batches of 1,000, 16 in flight", "append", 100, 1000, 16, quick=True),
    Workload("batch-4kb", "4 KB in batches of 64, 8 in flight", "append", 4096, 64, 8),
    Workload("producers-4", "50 KB one by one, 4 producers", "append", 50 * KB, clients=4),
    Workload("producers-8", "50 KB one by one, 8 producers", "append", 50 * KB, clients=8, quick=True),
    Workload("paced-4kb", "4 KB at a third of the slowest system's rate, open loop", "pace", 4096, quick=True),
    Workload("follow-4kb", "4 KB from append to a subscriber, at the same rate", "follow", 4096, quick=True),
    Workload("read-100b", "read 100 B from the start", "read", 100, 1000),
    Workload("read-4kb", "read 4 KB from the start", "read", 4096, 64, quick=True),
    Workload("read-50kb", "read 50 KB from the start", "read", 50 * KB, 16),
    Workload("read-1mb", "read 1 MB from the start", "read", MB),
    Workload("consumers-4", "read 50 KB from the start, 4 consumers", "read", 50 * KB, 16, clients=4),
    Workload("consumers-8", "read 50 KB from the start, 8 consumers", "read", 50 * KB, 16, clients=8),
    Workload("random-100b", "read 100 B at random", "random", 100, quick=True),
    Workload("random-50kb", "read 50 KB at random", "random", 50 * KB),
    Workload("random-1mb", "read 1 MB at random", "random", MB),
    Workload("random-4", "read 50 KB at random, 4 consumers", "random", 50 * KB, clients=4),
    Workload("random-8", "read 50 KB at random, 8 consumers", "random", 50 * KB, clients=8),
)
PACE_AFTER: Final = "flight-4kb"
"""The workload whose slowest synced system gives the rate of the open loop."""
