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

[sessions]                      # names that nobody uses expire; without it they never do
idle_s = "30d"                  # neither opened nor appended to for so long, by the order's time

[writers]                       # writers that publish nothing are forgotten; without it they never are
idle_s = "30d"

[tls]                           # links are protected (`model.config.tls`); without it nothing is
mode = "required"               # or "preferred", "offered"

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

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from ithaca.model.addresses import parse_address
from ithaca.model.config.failures import (
    NO_ACTION,
    FailurePolicy,
    action_key,
    action_problem,
    detection_problem,
    failure_policy,
)
from ithaca.model.config.failures import RULES as FAILURE_RULES
from ithaca.model.config.idle import RULES as IDLE_RULES
from ithaca.model.config.idle import idle_s
from ithaca.model.config.retention import RULES as RETENTION_RULES
from ithaca.model.config.retention import retention
from ithaca.model.config.rules import Amount, Choice, Flag, Number, Rule, Text, Texts, Word, meant, shown
from ithaca.model.config.tls import RULES as TLS_RULES
from ithaca.model.config.tls import ClusterTls, cluster_tls, tls_problem
from ithaca.model.config.toml_lines import Key, did_you_mean, line_of, read_toml
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.errors import ConfigError, InvalidInput
from ithaca.model.limits import (
    AGGREGATOR_LEVEL_MAX,
    AGGREGATOR_NUMBER_MAX,
    CLUSTER_NAME_CHARS_MAX,
    DETECTION_AGGREGATED_MS_MIN,
    ENGINE_NAME_CHARS_MAX,
    GIB,
    ORDERING_INTERVAL_US_MAX,
    ORDERING_REPLICAS_MAX,
    RAFT_MEMBERS_MAX,
    RAFT_NUMBER_MAX,
    SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN,
    SHARD_NUMBER_MAX,
    SHARD_REPLICAS_MAX,
)
from ithaca.model.paths import AnyPath, local_path
from ithaca.model.quorum import shard_f
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
    spares: tuple[Address, ...] = ()
    """Servers that wait to become replicas, or did."""
    removed: tuple[Address, ...] = ()
    """Servers that are not run any more."""
    engine: EngineName = DEFAULT_ENGINE
    tls: ClusterTls | None = None
    """What protects links."""
    insecure: bool = False
    """Whether somebody has said that everybody who reaches a server is trusted."""

    @property
    def is_open(self) -> bool:
        """Whether it was said to be insecure, and is."""
        return self.insecure and (self.tls is None or not self.tls.is_closed)

    @property
    def client_tls(self) -> TLS | None:
        """What whoever has the file connects with."""
        return None if self.tls is None else self.tls.of_clients()

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


_ADDRESS: Final = Text(300)
_CLUSTER: Final[Mapping[str, Rule]] = {
    "name": Text(CLUSTER_NAME_CHARS_MAX),
    "engine": Word(ENGINE_NAME_CHARS_MAX),
    "durability": Choice(get_args(Durability)),
    "order_interval_us": Number(0, ORDERING_INTERVAL_US_MAX),
    "insecure": Flag(),
    "segment_bytes": Amount(Number(SEGMENT_BYTES_MIN, GIB), "bytes"),
}
_ORDERER: Final[Mapping[str, Rule]] = {
    "server": Number(1, RAFT_NUMBER_MAX),
    "address": _ADDRESS,
    "joining": Flag(),
    "joins": Flag(),  # its former name
}
_SHARD: Final[Mapping[str, Rule]] = {"shard": Number(0, SHARD_NUMBER_MAX), "replicas": Texts(), "masking": Flag()}
_AGGREGATOR: Final[Mapping[str, Rule]] = {
    "aggregator": Number(1, AGGREGATOR_NUMBER_MAX),
    "address": _ADDRESS,
    "level": Number(1, AGGREGATOR_LEVEL_MAX),
}
_PLACE: Final[Mapping[str, Rule]] = {"address": _ADDRESS}
_TABLES: Final = {
    "cluster": _CLUSTER,
    "orderer": _ORDERER,
    "shard": _SHARD,
    "aggregator": _AGGREGATOR,
    "failures": FAILURE_RULES,
    "retention": RETENTION_RULES,
    "sessions": IDLE_RULES,
    "writers": IDLE_RULES,
    "tls": TLS_RULES,
    "spare": _PLACE,
    "removed": _PLACE,
}
_NEEDED: Final = {
    "orderer": ("server", "address"),
    "shard": ("shard", "replicas"),
    "aggregator": ("aggregator", "address"),
    "spare": ("address",),
    "removed": ("address",),
}


def load_cluster(path: AnyPath) -> ClusterFile:
    """The cluster that the file describes; `ConfigError` names the line that is wrong."""
    file = local_path(path)
    return _Parser(file, *read_toml(file)).cluster()


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


class _Parser:
    """One file on its way to a `ClusterFile`."""

    def __init__(self, file: str, document: dict[str, Any], text: str) -> None:
        self._file = file
        self._document = document
        self._text = text
        self._users: dict[Address, str] = {}

    def _error(self, message: str, *path: Key) -> ConfigError:
        return ConfigError(message, file=self._file, line=line_of(self._text, *path))

    def cluster(self) -> ClusterFile:
        for name in self._document:
            if name not in _TABLES:
                known = ", ".join(_TABLES)
                raise self._error(f"{name} is not known{did_you_mean(name, _TABLES)}: use one of {known}", name)
        settings = self._table("cluster")
        orderers = [self._orderer(*each) for each in self._tables("orderer", "server")]
        has_shards = "shard" in self._document or settings.get("engine", DEFAULT_ENGINE) == DEFAULT_ENGINE
        shards = [self._shard(*each) for each in self._tables("shard", "shard")] if has_shards else []
        aggregators = []
        if "aggregator" in self._document:
            aggregators = [self._aggregator(*each) for each in self._tables("aggregator", "aggregator")]
        self._check_levels(aggregators)
        self._check_sizes(len(orderers), sum(len(shard.replicas) for shard in shards))
        spares = tuple(self._spare(*each) for each in self._places("spare"))
        removed = tuple(self._removed(*each) for each in self._places("removed"))
        return ClusterFile(
            name=settings.get("name", "cluster"),
            engine=settings.get("engine", DEFAULT_ENGINE),
            durability=settings.get("durability", "fsync"),
            order_interval_us=settings.get("order_interval_us", 0),
            segment_bytes=settings.get("segment_bytes", SEGMENT_BYTES_MAX),
            orderers=tuple(sorted(orderers, key=lambda place: place.server)),
            shards=tuple(sorted(shards, key=lambda place: place.shard)),
            aggregators=tuple(sorted(aggregators, key=lambda place: place.aggregator)),
            failures=self._failures(shards, len(spares), has_aggregators=bool(aggregators)),
            retention=retention(self._table("retention")),
            session_idle_s=idle_s(self._table("sessions")),
            writer_idle_s=idle_s(self._table("writers")),
            spares=spares,
            removed=removed,
            tls=self._tls(),
            insecure=settings.get("insecure", False),
        )

    def _table(self, name: str) -> dict[str, Any]:
        table = self._document.get(name, {})
        if not isinstance(table, dict):
            raise self._error(f"{name} is {shown(table)}: make it a table, [{name}]", name)
        self._check(table, (), name)
        return table

    def _failures(self, shards: list[ShardPlace], spares: int, *, has_aggregators: bool) -> FailurePolicy:
        policy = failure_policy(self._table("failures"))
        shapes = [(shard.shard, shard.masking, len(shard.replicas)) for shard in shards]
        problem = action_problem(policy.action, shapes, spares)
        if problem is not None:
            raise self._error(problem, "failures", action_key(self._document["failures"]))
        problem = detection_problem(policy, has_aggregators=has_aggregators)
        if problem is not None:
            table = self._document["failures"]
            raise self._error(problem, "failures", "detection_ms" if "detection_ms" in table else action_key(table))
        return policy

    def _tls(self) -> ClusterTls | None:
        if "tls" not in self._document:
            return None
        table = self._table("tls")
        problem = tls_problem(table)
        if problem is not None:
            raise self._error(" ".join(problem), "tls", problem[0])
        return cluster_tls(table, os.path.dirname(os.path.abspath(self._file)))

    def _check(self, table: dict[str, Any], needed: tuple[str, ...], *path: Key) -> None:
        rules = _TABLES[str(path[0])]
        for name, value in table.items():
            if name not in rules:
                known = ", ".join(rules)
                raise self._error(f"{name} is not known{did_you_mean(name, rules)}: use one of {known}", *path, name)
            problem = rules[name].problem(value)
            if problem is not None:
                raise self._error(f"{name} {problem}", *path, name)
            table[name] = meant(rules[name], value)
        for name in needed:
            if name not in table:
                raise self._error(f"{name} is missing in [[{path[0]}]]", *path)

    def _tables(self, name: str, number: str) -> list[tuple[int, dict[str, Any]]]:
        """The tables of an array, at least one, each with its place; no two have the same number."""
        tables = self._places(name)
        if not tables:
            raise self._error(f"there is no {name}: add at least one table [[{name}]]", name)
        taken: set[int] = set()
        for place, table in tables:
            if table[number] in taken:
                raise self._error(f"{number} {table[number]} is there twice: give each its own", name, place, number)
            taken.add(table[number])
        return tables

    def _places(self, name: str) -> list[tuple[int, dict[str, Any]]]:
        """The tables of an array, checked, each with its place."""
        tables = self._document.get(name, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise self._error(f"{name} is {shown(tables)}: make it an array of tables, [[{name}]]", name)
        for place, table in enumerate(tables):
            self._check(table, _NEEDED[name], name, place)
        return list(enumerate(tables))

    def _spare(self, place: int, table: dict[str, Any]) -> Address:
        return self._address(table["address"], f"spare {place + 1}", "spare", place, "address")

    def _removed(self, place: int, table: dict[str, Any]) -> Address:
        where = ("removed", place, "address")
        try:
            address = parse_address(table["address"])
        except InvalidInput as error:
            raise self._error(str(error), *where) from None
        if self._users.get(address, "orderer").startswith(("orderer", "aggregator")):
            raise self._error(f"{address} is not the address of a replica or of a spare: name one that is", *where)
        return address

    def _orderer(self, place: int, table: dict[str, Any]) -> OrdererPlace:
        server = table["server"]
        address = self._address(table["address"], f"orderer {server}", "orderer", place, "address")
        return OrdererPlace(server, address, table.get("joining", table.get("joins", False)))

    def _aggregator(self, place: int, table: dict[str, Any]) -> AggregatorPlace:
        number = table["aggregator"]
        address = self._address(table["address"], f"aggregator {number}", "aggregator", place, "address")
        return AggregatorPlace(number, address, table.get("level", 1))

    def _shard(self, place: int, table: dict[str, Any]) -> ShardPlace:
        shard, masking, count = table["shard"], table.get("masking", False), len(table["replicas"])
        where = ("shard", place, "replicas")
        if not 1 <= count <= SHARD_REPLICAS_MAX:
            raise self._error(f"shard {shard} has {count} replicas: use 1 to {SHARD_REPLICAS_MAX}", *where)
        if masking and (count < 3 or count % 2 == 0):
            raise self._error(
                f"shard {shard} has {count} replicas with masking, which works by majority: use 3, 5, 7, ...", *where
            )
        replicas = tuple(
            ReplicaPlace(number, self._address(text, f"replica {number} of shard {shard}", *where, number))
            for number, text in enumerate(table["replicas"])
        )
        return ShardPlace(shard, shard_f(count, masking), masking, replicas)

    def _address(self, text: str, user: str, *path: Key) -> Address:
        try:
            address = parse_address(text)
        except InvalidInput as error:
            raise self._error(str(error), *path) from None
        if address.host in ("0.0.0.0", "::"):
            raise self._error(f"{text!r} is nowhere in particular: name the address that the others dial", *path)
        other = self._users.setdefault(address, user)
        if other != user:
            raise self._error(f"{address} is the address of {other}, too: give {user} its own", *path)
        return address

    def _check_sizes(self, orderers: int, replicas: int) -> None:
        if orderers > RAFT_MEMBERS_MAX:
            raise self._error(f"there are {orderers} orderers: use at most {RAFT_MEMBERS_MAX}", "orderer")
        if replicas > ORDERING_REPLICAS_MAX:
            raise self._error(f"there are {replicas} replicas: use at most {ORDERING_REPLICAS_MAX}", "shard")

    def _check_levels(self, aggregators: list[AggregatorPlace]) -> None:
        levels = {place.level for place in aggregators}
        for level in range(1, max(levels, default=0)):
            if level not in levels:
                raise self._error(
                    f"there is an aggregator of level {level + 1} and none of level {level}, which it would take: "
                    "number levels from 1 on",
                    "aggregator",
                )
