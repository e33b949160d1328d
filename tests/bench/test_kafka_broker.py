"""A Kafka broker for a while: its settings, and that nothing is left of it. Programs stand in for Java here."""

import os
import sys
from pathlib import Path

import pytest

from ithaca.bench.kafka_broker import BrokerPlan, kafka_broker, properties
from ithaca.model.errors import Unavailable

LISTENS = """
import os, signal, socket, sys
if "format" in sys.argv:
    sys.exit()
settings = dict(line.strip().split("=", 1) for line in open(sys.argv[-1]))
address = settings["advertised.listeners"].removeprefix("PLAINTEXT://").split(":")
open(os.path.join(os.path.dirname(sys.argv[-1]), "pid"), "w").write(str(os.getpid()))
server = socket.create_server((address[0], int(address[1])))
signal.pause()
"""
FORMATS_ONLY = """
import sys
if "format" not in sys.argv:
    for number in range(100):
        print("line", number)
    sys.exit("no such class")
"""


def plan(directory: Path, program: str) -> BrokerPlan:
    java = directory / "java"
    java.write_text(f"#!{sys.executable}\n{program}")
    java.chmod(0o700)
    return BrokerPlan(java, [Path("a.jar"), Path("b.jar")], partitions=3, batch_bytes_max=5_000_000)


def started(directory: Path) -> int:
    return int((directory / "broker" / "broker-1" / "pid").read_text())


def test_the_settings_keep_everything_on_loopback_and_for_good(tmp_path: Path) -> None:
    text = properties(tmp_path / "data", 10_001, 10_002, plan(tmp_path, ""))
    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:10001,CONTROLLER://127.0.0.1:10002"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:10002"
    assert settings["log.dirs"] == str(tmp_path / "data")
    assert (settings["num.partitions"], settings["message.max.bytes"]) == ("3", "5000000")
    assert (settings["log.retention.ms"], settings["log.retention.bytes"]) == ("-1", "-1")


def use(directory: Path, ending: type[BaseException]) -> None:
    with kafka_broker(directory / "broker", plan(directory, LISTENS)) as address:
        settings = (directory / "broker" / "broker-1" / "server.properties").read_text()
        assert f"advertised.listeners=PLAINTEXT://{address}\n" in settings
        os.kill(started(directory), 0)
        raise ending


@pytest.mark.parametrize("ending", [KeyboardInterrupt, ValueError])
def test_the_process_is_gone_afterwards(tmp_path: Path, ending: type[BaseException]) -> None:
    with pytest.raises(ending):
        use(tmp_path, ending)
    with pytest.raises(ProcessLookupError):
        os.kill(started(tmp_path), 0)


def test_a_broker_that_ends_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with (
        pytest.raises(Unavailable, match="ended with status 1") as failure,
        kafka_broker(tmp_path / "b", plan(tmp_path, FORMATS_ONLY)),
    ):
        pass
    said = str(failure.value)
    assert "no such class" in said
    assert "line 99" in said
    assert "line 50" not in said


def test_a_directory_that_cannot_be_formatted_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(Unavailable, match=r"did not format its directory \(status 1\)(.|\n)*is too old"),
        kafka_broker(tmp_path / "b", plan(tmp_path, "import sys; sys.exit('it is too old')")),
    ):
        pass


def test_a_java_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(Unavailable, match="java cannot be started: No such file"),
        kafka_broker(tmp_path / "b", BrokerPlan(tmp_path / "java", [], 1, 1)),
    ):
        pass
