"""Kafka brokers for a while, to compare with: each its own process on loopback, one of them the controller.

They run from jars that somebody else has found, keep everything in one directory, and are gone afterwards.
"""

import base64
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ithaca.bench.foreign import foreign_server, run_tool
from ithaca.cluster.ports import LOOPBACK, free_ports

HEAP: Final = "1g"
NAME: Final = "the Kafka broker"


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """How to run them: `partitions` are those of every topic, which is made when it is first written to.

    Each of the `brokers` has a copy of everything.
    """

    java: Path
    jars: Sequence[Path]
    partitions: int
    batch_bytes_max: int
    brokers: int = 1


@dataclass(frozen=True, slots=True)
class Brokers:
    """Brokers that listen."""

    addresses: tuple[str, ...]
    processes: "tuple[subprocess.Popen[bytes], ...]"


@contextmanager
def kafka_broker(directory: Path, plan: BrokerPlan) -> Iterator[str]:
    """A broker that listens, as host:port, in `directory`, which must not be there yet."""
    with kafka_brokers(directory, plan) as brokers:
        yield brokers.addresses[0]


@contextmanager
def kafka_brokers(directory: Path, plan: BrokerPlan) -> Iterator[Brokers]:
    """All brokers of the plan, in `directory`, which must not be there yet."""
    directory.mkdir(mode=0o700, parents=True)
    controller, *ports = free_ports(1 + plan.brokers)
    identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    with ExitStack() as stack:
        processes = []
        for number, port in enumerate(ports, 1):
            place = directory / f"broker-{number}"
            place.mkdir(mode=0o700)
            settings, output = place / "server.properties", place / "output.txt"
            settings.write_text(properties(place / "data", port, controller, plan, number), encoding="utf-8")
            tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={identity}", "--config", str(settings)]
            run_tool(NAME, "format its directory", [*_java(plan), *tool], output)
            command = [*_java(plan), "kafka.Kafka", str(settings)]
            processes.append(stack.enter_context(foreign_server(NAME, command, output, port)))
        yield Brokers(tuple(f"{LOOPBACK}:{port}" for port in ports), tuple(processes))


def properties(data: Path, broker_port: int, controller_port: int, plan: BrokerPlan, number: int = 1) -> str:
    """A broker's file of settings; whatever is not named here is Kafka's default. The first one is the controller."""
    leads = number == 1
    listeners = [f"PLAINTEXT://{LOOPBACK}:{broker_port}"]
    if leads:
        listeners.append(f"CONTROLLER://{LOOPBACK}:{controller_port}")
    settings: Mapping[str, object] = {
        "process.roles": "broker,controller" if leads else "broker",
        "node.id": number,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners),
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{broker_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
        "num.partitions": plan.partitions,
        "default.replication.factor": plan.brokers,
        "offsets.topic.replication.factor": plan.brokers,
        "transaction.state.log.replication.factor": plan.brokers,
        "transaction.state.log.min.isr": 1,
        "log.retention.ms": -1,
        "log.retention.bytes": -1,
        "log.segment.delete.delay.ms": 1000,  # a topic that is deleted gives its space back soon
        "message.max.bytes": plan.batch_bytes_max,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _java(plan: BrokerPlan) -> list[str]:
    classes = os.pathsep.join(str(jar) for jar in plan.jars)
    options = [f"-Xms{HEAP}", f"-Xmx{HEAP}", "-Dorg.apache.logging.log4j.level=WARN"]
    return [str(plan.java), *options, "-cp", classes]
