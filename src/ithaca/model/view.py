"""Which shards, replicas and addresses exist, and what a cluster was created as. Frozen, msgpack-ready.

A shard tolerates the loss of `f` replicas. It has f+1 of them or, with `masking`, 2f+1; in both cases a
record is durable when f+1 replicas have synced it, which is every replica of the smaller shard (Scalog §3,
§4.4.2). Who belongs to a shard is its configuration, numbered by the shard's `epoch`.
"""

from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from ithaca.model.engine import EngineName
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import (
    ENGINE_NAME_CHARS_MAX,
    HOST_CHARACTERS_MAX,
    INCARNATION_MAX,
    ORDERING_PIPELINE_CUTS,
    REPLICA_NUMBER_MAX,
    SHARD_NUMBER_MAX,
    SHARD_REPLICAS_MAX,
)
from ithaca.model.positions import LaneId
from ithaca.model.quorum import shard_size

ShardPhase = Literal["live", "finalizing", "finalized"]

_Natural = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Replica = Annotated[int, Meta(ge=0, le=REPLICA_NUMBER_MAX)]


class ClusterConfiguration(msgspec.Struct, frozen=True, array_like=True):
    """What a log is; the first two are fixed when it is created."""

    log: UUID
    engine: Annotated[EngineName, Meta(min_length=1, max_length=ENGINE_NAME_CHARS_MAX)]
    order_interval_us: int = 0
    """The least time between two cuts; 0 sets no bound."""
    pipeline_cuts: int = ORDERING_PIPELINE_CUTS
    """Cuts proposed and not yet applied; more wait."""


class Address(msgspec.Struct, frozen=True, array_like=True):
    """Where a server listens.

    >>> str(Address("127.0.0.1", 7600)), str(Address("::1", 7600))
    ('127.0.0.1:7600', '[::1]:7600')
    """

    host: str
    port: Annotated[int, Meta(ge=0, le=65535)]

    def __post_init__(self) -> None:
        if len(self.host) > HOST_CHARACTERS_MAX:
            raise InvalidInput(
                f"the host {self.host[:32]!r}… has {len(self.host)} characters: use {HOST_CHARACTERS_MAX}"
            )

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Orderers(msgspec.Struct, frozen=True, array_like=True):
    """Where the orderers are, as it was agreed up to this entry of their log: of two lists the later one holds."""

    entry: _Natural = 0
    addresses: tuple[Address, ...] = ()


class Replica(msgspec.Struct, frozen=True, array_like=True):
    """One storage server of a shard. `boot` counts its starts on its own disk, and never falls."""

    replica: _Replica
    address: Address
    boot: _Natural = 0
    incarnation: Annotated[int, Meta(ge=0, le=INCARNATION_MAX)] = 0
    """Of its newest lane; 0 before the first."""
    is_open: bool = False
    """Whether that lane may still grow."""


class Shard(msgspec.Struct, frozen=True, array_like=True):
    """A group of replicas, sorted by number, that back up each other's lanes."""

    shard: Annotated[int, Meta(ge=0, le=SHARD_NUMBER_MAX)]
    f: Annotated[int, Meta(ge=0, lt=SHARD_REPLICAS_MAX)]
    masking: bool
    replicas: tuple[Replica, ...]
    replica_last: _Replica
    """The highest number that a replica of this shard ever had; numbers are never reused."""
    epoch: _Natural = 1
    epoch_view: _Natural = 0
    """The version of the view in which the epoch began."""
    phase: ShardPhase = "live"
    final_cut: _Natural = 0
    """The last cut that could order something of this shard, once it is finalized."""

    @property
    def copies(self) -> int:
        """Replicas that must have synced a record before it is ordered."""
        return self.f + 1

    @property
    def size(self) -> int:
        """Replicas of the shard while none is being replaced."""
        return shard_size(self.f, self.masking)

    @property
    def is_ordering(self) -> bool:
        """Whether cuts may order something of this shard."""
        return self.phase != "finalized" and len(self.replicas) >= self.copies

    def find(self, replica: int) -> Replica | None:
        return next((member for member in self.replicas if member.replica == replica), None)

    def open_lanes(self) -> list[LaneId]:
        """The lanes that may still grow, in order."""
        return [LaneId(self.shard, each.replica, each.incarnation) for each in self.replicas if each.is_open]


class View(msgspec.Struct, frozen=True, array_like=True):
    """All shards, sorted by number; the version rises with every change."""

    version: _Natural = 0
    shards: tuple[Shard, ...] = ()

    def live_lanes(self) -> list[LaneId]:
        """Where appends may go."""
        return [lane for shard in self.shards if shard.phase == "live" for lane in shard.open_lanes()]
