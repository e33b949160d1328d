"""The text of a cluster's file, whole or by tables, as `model.config.cluster` reads it."""

import json
from typing import Literal

from ithaca.model.config.audit import dump_audit
from ithaca.model.config.cluster import AggregatorPlace, ClusterFile, OrdererPlace, ShardPlace
from ithaca.model.config.failures import NO_ACTION
from ithaca.model.config.idle import dump_idle
from ithaca.model.config.retention import dump_retention
from ithaca.model.config.slots import SLOT_ENGINE, USUAL_SLOTS
from ithaca.model.config.tls import dump_tls
from ithaca.model.config.users import dump_users
from ithaca.model.view import Address


def dump_cluster(file: ClusterFile) -> str:
    """The text that `load_cluster` reads the same cluster from."""
    lines = [
        "[cluster]",
        f"name = {json.dumps(file.name, ensure_ascii=False)}",
        f'engine = "{file.engine}"',
        f'durability = "{file.durability}"',
        f"order_interval_us = {file.order_interval_us}",
        f"segment_bytes = {file.segment_bytes}",
        *(["insecure = true"] if file.insecure else []),
    ]
    if file.failures != NO_ACTION:
        failures = file.failures
        lines += ["", "[failures]", f'action = "{failures.action}"', f"detection_ms = {failures.detection_ms}"]
    if file.retention is not None:
        lines += ["", *dump_retention(file.retention)]
    if file.slots != USUAL_SLOTS:
        lines += ["", f"[{SLOT_ENGINE}]", f'mode = "{file.slots.mode}"', f'quotas = "{file.slots.quotas}"']
    lines += [*dump_idle("sessions", file.session_idle_s), *dump_idle("writers", file.writer_idle_s)]
    lines += [*dump_tls(file.tls), *dump_users(file.users), *dump_audit(file.audit)]
    lines += dump_idle("consumers", file.consumer_idle_s)
    tables = [
        *map(dump_orderer, file.orderers),
        *map(_dump_aggregator, file.aggregators),
        *map(dump_shard, file.shards),
    ]
    tables += [dump_place("spare", address) for address in file.spares]
    tables += [dump_place("removed", address) for address in file.removed]
    return "\n".join(lines) + "\n" + "".join(tables)


def dump_orderer(orderer: OrdererPlace) -> str:
    """The text of one orderer, to be put behind what a file says already."""
    joining = "joining = true\n" if orderer.joining else ""
    return f'\n[[orderer]]\nserver = {orderer.server}\naddress = "{orderer.address}"\n{joining}'


def _dump_aggregator(place: AggregatorPlace) -> str:
    return f'\n[[aggregator]]\naggregator = {place.aggregator}\naddress = "{place.address}"\nlevel = {place.level}\n'


def dump_shard(shard: ShardPlace) -> str:
    """The text of one shard, to be put behind what a file says already."""
    replicas = ", ".join(f'"{replica.address}"' for replica in shard.replicas)
    masking = str(shard.masking).lower()
    return f"\n[[shard]]\nshard = {shard.shard}\nmasking = {masking}\nreplicas = [{replicas}]\n"


def dump_place(kind: Literal["spare", "removed"], address: Address) -> str:
    """The text of a spare, or of a server that is not run any more, to be put behind what a file says already."""
    return f'\n[[{kind}]]\naddress = "{address}"\n'
