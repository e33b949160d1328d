"""Whatever a method of a log is given in place of an argument, it refuses: with `InvalidInput`, never a bare error.

Every method is tried, and of each every argument: one is nonsense, and the others are what they may be.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import ithaca
import ithaca.aio
from ithaca.model import interface
from ithaca.model.consumers import OpenConsumer
from ithaca.model.engine import Feature
from ithaca.model.errors import InvalidInput, NoSuchConsumer, Unsupported
from ithaca.model.groups import GroupBeat
from ithaca.model.interface import ClusterLog, Log
from ithaca.model.records import KeyFilter
from ithaca.model.security.users import UserLimits
from tests.conformance.engines import Engine
from tests.nonsense import NONSENSE, faults, faults_of

USUAL: dict[str, Any] = {
    "address": "127.0.0.1:1",
    "addresses": ["127.0.0.1:1"],
    "beat": GroupBeat("nobody", 1, 1, (), 10_000),
    "before": 1,
    "certificate": False,
    "commands": [OpenConsumer("nobody", 1, 1)],
    "consumed": None,
    "force": False,
    "grace": 0,
    "grace_cuts": 0,
    "key": 1,
    "keys": [b"k"],
    "lane": "0-4095-1",
    "limits": UserLimits(),
    "max_records": 1,
    "name": "nobody",
    "orderer": 64,
    "owner": "",
    "parts": [],
    "policy": "sticky",
    "position": 1,
    "replica": 4095,
    "replicas": ["127.0.0.1:1"],
    "rights": ["read"],
    "sequencer": 64,
    "seq": 1,
    "shard": 0,
    "start": 1,
    "stop": 2,
    "timeout": 1,
    "to": "earliest",
    "ttl": 60,
    "unit": 4095,
    "value": b"v",
    "values": [b"v"],
    "wait": 0,
    "where": KeyFilter.equals(b"k"),
    "without": [],
    "writer": "nobody",
}
"""What an argument of this name may be."""
BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    ("consumer", "lease"): {"group": True},
    ("consumer", "parts"): {"group": True},
}
"""What an argument needs beside it."""


def test_of_the_log(log: Log) -> None:
    found = list(faults_of(log, ClusterLog if isinstance(log, ClusterLog) else Log, USUAL, BESIDE))
    assert not found, "\n".join(found)
    log.flush()


def test_of_the_administration(log: Log) -> None:
    if not isinstance(log, ClusterLog):
        pytest.skip("nothing administers it")
    found = list(faults_of(log.admin, interface.Admin, USUAL))
    assert not found, "\n".join(found)


def test_of_what_a_log_gives(engine: Engine, log: Log) -> None:
    opened: list[tuple[Callable[[], Any], type]] = [
        (lambda: log.subscribe(1), interface.Subscription),
        (lambda: log.read_range(1), interface.Records),
        (lambda: log.submit(b"x"), interface.Pending),
    ]
    if Feature.SESSIONS in engine.features:
        opened.append((lambda: log.session("every argument"), interface.Session))
    if Feature.PREPARED in engine.features:
        opened.append((log.open_part, interface.PartWriter))
    if Feature.CONSUMERS in engine.features:
        opened.append((lambda: log.consumer("every argument"), interface.Consumer))
        opened.append((lambda: log.consumer("every argument, shared", group=True), interface.Consumer))
    found: list[str] = []
    for opening, of in opened:
        owner = opening()
        found += faults_of(owner, of, USUAL)
        if hasattr(owner, "close"):
            owner.close()
    for name in ("every argument", "every argument, shared"):
        with suppress(NoSuchConsumer, Unsupported):
            log.delete_consumer(name)
    assert not found, "\n".join(found)


async def test_of_what_opens_a_log(tmp_path: Path) -> None:
    usual = {"path": tmp_path / "log", "bootstrap": "127.0.0.1:1", "authority": "ca.pem", "index": 0, "count": 4}
    made = (
        ithaca.open,
        ithaca.connect,
        ithaca.Retention,
        ithaca.TLS,
        KeyFilter.equals,
        KeyFilter.prefix,
        KeyFilter.part,
    )
    found = [fault for each in made for fault in faults(each, usual)]
    assert not [fault for fault in found if not fault.startswith("connect(token=...) does not say")]  # it is a secret
    with pytest.raises(InvalidInput, match="path is nonsense"):
        await ithaca.aio.open(NONSENSE)  # type: ignore[arg-type]
