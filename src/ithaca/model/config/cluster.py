"""The file that describes a cluster: the same one for every server, on one machine or on many.

```toml
[cluster]
name = "local"                  # for people
engine = "scalog"               # how records get their places in the order
durability = "fsync"            # or "os"
order_interval_us = 0           # the least time between two cuts
segment_bytes = "256M"          # roll segments at this size
insecure = false                # true: whoever reaches a server is trusted, on other addresses than loopback, too

[[orderer]]                     # an odd number of them to begin with
server = 1
address = "127.0.0.1:7600"
joining = false                 # true: it was not there when the log was founded, and waits to be added

[[shard]]
shard = 0
masking = false                 # true: an odd number of replicas, a minority of which may be slow or gone
replicas = ["127.0.0.1:7603", "127.0.0.1:7604"]

[[aggregator]]                  # none, or some that stand between many replicas and the leader
aggregator = 1
address = "127.0.0.1:7606"
level = 1                       # 1 takes replicas, 2 takes aggregators of level 1, and so on

[failures]                      # what is done about a replica that is silent (`model.config.failures`)
action = "none"                 # or "mask", "replace", "finalize-and-add"
detection_ms = "3s"             # silent for so long

[retention]                     # what is older, or more, is trimmed; without it nothing is
age_s = "7d"                    # ordered so long ago
shard_bytes = "100G"            # so much of a shard on each of its replicas, in whole segments
keep_for_consumers = true       # not before named consumers have processed it; or a list of names
keep_for_consumers_s = "7d"     # and for so much longer at most

[sessions]                      # names that nobody uses expire; without it they never do
idle_s = "30d"                  # neither opened nor appended to for so long, by the order's time

[writers]                       # writers that publish nothing are forgotten; without it they never are
idle_s = "30d"

[consumers]                     # consumers that nobody uses are forgotten; without it they never are
idle_s = "30d"                  # neither opened nor committed for so long

[tls]                           # links are protected (`model.config.tls`); without it nothing is
mode = "required"               # or "preferred", "offered"

[users]                         # clients say who they are, and have rights (`model.config.users`)
required = true

[audit]                         # who came and what was changed is written down (`model.config.audit`)
path = "audit/{server}.jsonl"

[belfast]                       # of the engine belfast (`model.config.slots`)
mode = "fixed"                  # or "free", or "auto": whether records can be delivered before they are ordered
quotas = "wide"                 # or "rate": how many slots a shard has in a cut

[[spare]]                       # a storage server that waits until it is needed
address = "127.0.0.1:7605"

[[removed]]                     # a replica or a spare that is not to be run any more
address = "127.0.0.1:7604"
```

A time or a size is a number of what its name says, or text with a unit. An engine whose servers are all orderers
(`raft`) has no shards. Replicas are numbered as they are listed, from 0. Without masking, a shard of n replicas
survives the loss of n-1; with it, of (n-1)/2. Only `server`, `address`, `shard`, `replicas` and `aggregator` must be
there. The list of a shard says what it began as; who belongs to it now is what the ordering layer has agreed on.
"""

from dataclasses import dataclass

from ithaca.model.config.audit import ClusterAudit
from ithaca.model.config.failures import (
    NO_ACTION,
    FailurePolicy,
)
from ithaca.model.config.slots import USUAL_SLOTS, SlotSettings
from ithaca.model.config.tls import ClusterTls
from ithaca.model.config.toml_lines import read_toml
from ithaca.model.config.users import ClusterUsers
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.errors import ConfigError, InvalidInput
from ithaca.model.limits import (
    DETECTION_AGGREGATED_MS_MIN,
)
from ithaca.model.paths import AnyPath, local_path
from ithaca.model.records import Durability, Retention
from ithaca.model.security.tls import TLS
from ithaca.model.view import Address


@dataclass(frozen=True, slots=True)
class OrdererPlace:
    """One server of the ordering layer. One that is `joining` waits to be added; all others found the log together."""

    server: int
    address: Address
    joining: bool = False


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """One storage server of a shard."""

    replica: int
    address: Address


@dataclass(frozen=True, slots=True)
class ShardPlace:
    """A shard, which survives the loss of `f` of its replicas."""

    shard: int
    f: int
    masking: bool
    replicas: tuple[ReplicaPlace, ...]


@dataclass(frozen=True, slots=True)
class AggregatorPlace:
    """A server between replicas, or aggregators of the level below, and the ordering leader."""

    aggregator: int
    address: Address
    level: int = 1


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """What the file says, every value checked; orderers, shards and aggregators are sorted by number."""

    name: str
    durability: Durability
    order_interval_us: int
    segment_bytes: int
    orderers: tuple[OrdererPlace, ...]
    shards: tuple[ShardPlace, ...]
    aggregators: tuple[AggregatorPlace, ...] = ()
    failures: FailurePolicy = NO_ACTION
    retention: Retention | None = None
    """Its `bytes` are those of a shard, on each of its replicas."""
    session_idle_s: int | None = None
    """After so long a named session that nobody uses expires."""
    writer_idle_s: int | None = None
    """After so long a writer that publishes nothing is forgotten."""
    consumer_idle_s: int | None = None
    """After so long a named consumer that nobody uses is forgotten."""
    spares: tuple[Address, ...] = ()
    """Servers that wait to become replicas, or did."""
    removed: tuple[Address, ...] = ()
    """Servers that are not run any more."""
    engine: EngineName = DEFAULT_ENGINE
    slots: SlotSettings = USUAL_SLOTS
    tls: ClusterTls | None = None
    """What protects links."""
    audit: ClusterAudit | None = None
    """Where servers write down who came."""
    users: ClusterUsers | None = None
    """Whether clients say who they are, and do what they have the right to."""
    insecure: bool = False
    """Whether somebody has said that everybody who reaches a server is trusted."""

    @property
    def is_open(self) -> bool:
        """Whether it was said to be insecure, and is."""
        return self.insecure and not self.is_closed

    @property
    def client_tls(self) -> TLS | None:
        """What whoever has the file connects with."""
        return None if self.tls is None else self.tls.of_clients()

    @property
    def are_servers_certified(self) -> bool:
        """Whether every server proves by a certificate which one it is."""
        return self.tls is not None and self.tls.mode == "required"

    @property
    def client_token(self) -> str | None:
        """By which token whoever has the file is the operator; None where it needs none."""
        return None if self.users is None or self.are_servers_certified else self.users.operator_token()

    @property
    def is_closed(self) -> bool:
        """Whether nobody does anything who has not proved who it is, over links that nobody else can read."""
        return self.tls is not None and (self.tls.is_closed or (self.are_servers_certified and self.users is not None))

    @property
    def watching(self) -> FailurePolicy:
        """What is done about silent replicas, and when one is: behind aggregators not before it could leave one."""
        least_ms = DETECTION_AGGREGATED_MS_MIN if self.aggregators else 0
        return FailurePolicy(self.failures.action, max(self.failures.detection_ms, least_ms))

    def orderer(self, server: int) -> OrdererPlace:
        """One orderer; `ConfigError` when the file has no such."""
        for place in self.orderers:
            if place.server == server:
                return place
        known = [place.server for place in self.orderers]
        raise ConfigError(f"there is no orderer {server} in the cluster's file, only {known}")

    def replica(self, shard: int, replica: int) -> ReplicaPlace:
        """One replica of one shard; `InvalidInput` when the file has no such."""
        for of_shard in self.shards:
            for place in of_shard.replicas:
                if (of_shard.shard, place.replica) == (shard, replica):
                    return place
        raise InvalidInput(f"the cluster {self.name!r} has no replica {shard}/{replica}")

    def spare_name(self, address: Address) -> str:
        """What a spare is called: by its place among those of the file."""
        return f"spare-{self.spares.index(address) + 1 if address in self.spares else 0}"

    def addresses(self) -> list[Address]:
        """Of every server, orderers first, then replicas."""
        replicas = [place.address for shard in self.shards for place in shard.replicas]
        aggregators = [place.address for place in self.aggregators]
        return [place.address for place in self.orderers] + replicas + aggregators + list(self.spares)


def load_cluster(path: AnyPath) -> ClusterFile:
    """The cluster that the file describes; `ConfigError` names the line that is wrong."""
    from ithaca.model.config.loading import Parser  # which makes what this module has

    file = local_path(path)
    return Parser(file, *read_toml(file)).cluster()


def check_founders(file: ClusterFile) -> dict[int, Address]:
    """The orderers that found a log; `ConfigError` when there is an even number of them. Later there may be."""
    founders = {place.server: place.address for place in file.orderers if not place.joining}
    count = len(founders)
    if count % 2 == 0:
        raise ConfigError(
            f"there are {count} orderers: an even number survives no more failures than {count - 1}, "
            f"and is slower; use {count - 1} or {count + 1}"
        )
    return founders
