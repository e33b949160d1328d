"""From the text of a cluster's file to what it says (`model.config.cluster`); mistakes are named by their line."""

import os
from collections.abc import Mapping
from typing import Any, Final, get_args

from ithaca.model.addresses import is_loopback, parse_address
from ithaca.model.config.audit import RULES as AUDIT_RULES
from ithaca.model.config.audit import ClusterAudit, audit_problem
from ithaca.model.config.cluster import AggregatorPlace, ClusterFile, OrdererPlace, ReplicaPlace, ShardPlace
from ithaca.model.config.failures import RULES as FAILURE_RULES
from ithaca.model.config.failures import (
    FailurePolicy,
    action_key,
    action_problem,
    detection_problem,
    failure_policy,
)
from ithaca.model.config.idle import RULES as IDLE_RULES
from ithaca.model.config.idle import idle_s
from ithaca.model.config.retention import RULES as RETENTION_RULES
from ithaca.model.config.retention import retention
from ithaca.model.config.rules import Amount, Choice, Flag, Number, Rule, Text, Texts, Word, meant, shown
from ithaca.model.config.slots import RULES as SLOT_RULES
from ithaca.model.config.slots import SLOT_ENGINE, SlotSettings, slot_settings
from ithaca.model.config.tls import RULES as TLS_RULES
from ithaca.model.config.tls import ClusterTls, cluster_tls, tls_problem
from ithaca.model.config.toml_lines import Key, did_you_mean, line_of
from ithaca.model.config.users import RULES as USER_RULES
from ithaca.model.config.users import ClusterUsers, cluster_users
from ithaca.model.engine import DEFAULT_ENGINE, FEATURES, EngineName, Feature, engines_with
from ithaca.model.errors import ConfigError, InvalidInput
from ithaca.model.limits import (
    AGGREGATOR_LEVEL_MAX,
    AGGREGATOR_NUMBER_MAX,
    CLUSTER_NAME_CHARS_MAX,
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
from ithaca.model.quorum import shard_f
from ithaca.model.records import Durability
from ithaca.model.view import Address

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
    SLOT_ENGINE: SLOT_RULES,
    "consumers": IDLE_RULES,
    "tls": TLS_RULES,
    "audit": AUDIT_RULES,
    "users": USER_RULES,
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


class Parser:
    """One file on its way to a `ClusterFile`."""

    def __init__(self, file: str, document: dict[str, Any], text: str) -> None:
        self._file = file
        self._document = document
        self._text = text
        self._taken: dict[Address, str] = {}

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
        self._check_aggregators(settings.get("engine", DEFAULT_ENGINE))
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
            consumer_idle_s=idle_s(self._table("consumers")),
            spares=spares,
            removed=removed,
            slots=self._slots(settings.get("engine", DEFAULT_ENGINE)),
            tls=self._tls(),
            audit=self._audit(),
            users=self._users(),
            insecure=settings.get("insecure", False),
        )

    def _slots(self, engine: EngineName) -> SlotSettings:
        if SLOT_ENGINE in self._document and engine != SLOT_ENGINE:
            raise self._error(
                f"[{SLOT_ENGINE}] is for the engine {SLOT_ENGINE}, and this cluster has {engine}: remove it, or use "
                f'engine = "{SLOT_ENGINE}"',
                SLOT_ENGINE,
            )
        return slot_settings(self._table(SLOT_ENGINE))

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
        return cluster_tls(table, self._directory)

    def _audit(self) -> ClusterAudit | None:
        if "audit" not in self._document:
            return None
        table = self._table("audit")
        problem = audit_problem(table)
        if problem is not None:
            raise self._error(f"path {problem}", "audit", "path")
        return ClusterAudit(**table, directory=self._directory)

    def _users(self) -> ClusterUsers | None:
        users = cluster_users(self._table("users"), self._directory)
        is_certified = self._document.get("tls", {}).get("mode", "required") == "required" and "tls" in self._document
        if users is not None and not is_certified:
            far = [address for address in self._taken if not is_loopback(address)]
            if far:
                problem = f'users are required, and {far[0]} can be reached by others: use [tls] with mode = "required"'
                raise self._error(problem, "users", "required")
        return users

    @property
    def _directory(self) -> str:
        return os.path.dirname(os.path.abspath(self._file))

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
        if self._taken.get(address, "orderer").startswith(("orderer", "aggregator")):
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
        other = self._taken.setdefault(address, user)
        if other != user:
            raise self._error(f"{address} is the address of {other}, too: give {user} its own", *path)
        return address

    def _check_sizes(self, orderers: int, replicas: int) -> None:
        if orderers > RAFT_MEMBERS_MAX:
            raise self._error(f"there are {orderers} orderers: use at most {RAFT_MEMBERS_MAX}", "orderer")
        if replicas > ORDERING_REPLICAS_MAX:
            raise self._error(f"there are {replicas} replicas: use at most {ORDERING_REPLICAS_MAX}", "shard")

    def _check_aggregators(self, engine: EngineName) -> None:
        if "aggregator" in self._document and Feature.AGGREGATORS not in FEATURES.get(engine, frozenset(Feature)):
            have = ", ".join(engines_with(Feature.AGGREGATORS))
            raise self._error(
                f"the engine {engine} has no aggregators, replicas report to the leader: remove them, or use one of "
                f"the engines that have: {have}",
                "aggregator",
            )

    def _check_levels(self, aggregators: list[AggregatorPlace]) -> None:
        levels = {place.level for place in aggregators}
        for level in range(1, max(levels, default=0)):
            if level not in levels:
                raise self._error(
                    f"there is an aggregator of level {level + 1} and none of level {level}, which it would take: "
                    "number levels from 1 on",
                    "aggregator",
                )
