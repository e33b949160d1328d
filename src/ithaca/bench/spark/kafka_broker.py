"""One Kafka broker for a while, to compare with: one process that is its own controller, on loopback, unreplicated.

It runs from jars that somebody else has found, keeps everything in one directory, and is gone afterwards.
"""

import base64
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ithaca.cluster.ports import LOOPBACK, free_ports
from ithaca.cluster.temporary import terminations_raised
from ithaca.model.errors import Unavailable

HEAP: Final = "1g"
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 10.0
POLL_S: Final = 0.05
LAST_WORDS: Final = 10
"""Lines of its output that are told when it does not start."""


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """How to run it: `partitions` are those of every topic, which is made when it is first written to."""

    java: Path
    jars: Sequence[Path]
    partitions: int
    batch_bytes_max: int


@contextmanager
def kafka_broker(directory: Path, plan: BrokerPlan) -> Iterator[str]:
    """A broker that listens, as host:port, in `directory`, which must not be there yet."""
    directory.mkdir(mode=0o700, parents=True)
    broker, controller = free_ports(2)
    settings = directory / "server.properties"
    settings.write_text(properties(directory / "data", broker, controller, plan), encoding="utf-8")
    output = directory / "output.txt"
    with terminations_raised(), output.open("ab") as stream:
        _format(plan, settings, stream.fileno(), output)
        process = subprocess.Popen(
            [*_java(plan), "kafka.Kafka", str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,  # Ctrl-C is ours, and we stop it
        )
        try:
            _wait_until_it_listens(process, broker, output)
            yield f"{LOOPBACK}:{broker}"
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT_S)
            process.kill()
            process.wait()


def properties(data: Path, broker_port: int, controller_port: int, plan: BrokerPlan) -> str:
    """The broker's file of settings; whatever is not named here is Kafka's default."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{broker_port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{broker_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
        "num.partitions": plan.partitions,
        "default.replication.factor": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "log.retention.ms": -1,
        "log.retention.bytes": -1,
        "message.max.bytes": plan.batch_bytes_max,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _java(plan: BrokerPlan) -> list[str]:
    classes = os.pathsep.join(str(jar) for jar in plan.jars)
    options = [f"-Xms{HEAP}", f"-Xmx{HEAP}", "-Dorg.apache.logging.log4j.level=WARN"]
    return [str(plan.java), *options, "-cp", classes]


def _format(plan: BrokerPlan, settings: Path, stream: int, output: Path) -> None:
    identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={identity}", "--config", str(settings)]
    try:
        done = subprocess.run(
            [*_java(plan), *tool],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            timeout=START_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _failed(f"did not format its directory within {START_TIMEOUT_S:.0f} s", output) from None
    except OSError as error:
        raise Unavailable(f"{plan.java} cannot be started: {error.strerror or error}") from error
    if done.returncode != 0:
        raise _failed(f"did not format its directory (status {done.returncode})", output)


def _wait_until_it_listens(process: "subprocess.Popen[bytes]", port: int, output: Path) -> None:
    give_up_at = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None:
        try:
            socket.create_connection((LOOPBACK, port), timeout=START_TIMEOUT_S).close()
            return
        except OSError:
            if time.monotonic() > give_up_at:
                raise _failed(f"did not listen within {START_TIMEOUT_S:.0f} s", output) from None
            time.sleep(POLL_S)
    raise _failed(f"ended with status {process.returncode}", output)


def _failed(what: str, output: Path) -> Unavailable:
    lines = output.read_text(errors="replace").strip().splitlines()[-LAST_WORDS:]
    return Unavailable("\n".join([f"the Kafka broker {what}; the last it said:", *(lines or ["(nothing)"])]))
