"""The process of a server: signals, exit statuses, what it asks of the kernel."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ithaca.model.errors import Corrupt, Fenced
from ithaca.server import process

PRELUDE = """
import asyncio, resource, signal, sys
from ithaca.model.errors import Fenced, StorageError, Unavailable
from ithaca.model.view import Address
from ithaca.server.process import run_server

class Trivial:
    address = Address("127.0.0.1", 1)
    def __init__(self): self.ended = asyncio.Event()
    async def start(self): self.say("started")
    async def stop(self):
        self.say("stopped")
        self.ended.set()
    async def wait(self): await self.ended.wait()
    def status(self): return {}
    def say(self, text): print(text, flush=True)

def run(kind): sys.exit(run_server(kind, "replica", "0/1"))
"""


def start(code: str, **environment: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | environment,
    )


def finish(process: "subprocess.Popen[bytes]") -> tuple[int, list[str], list[dict[str, Any]]]:
    """Exit status, printed lines, logged lines."""
    output, log = process.communicate(timeout=60)
    return process.returncode, output.decode().split("\n")[:-1], [json.loads(line) for line in log.splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_cleanly(number: signal.Signals) -> None:
    process = start("run(Trivial)")
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    process.send_signal(number)
    status, output, log = finish(process)
    assert (status, output) == (0, ["stopped"])
    assert (log[-1]["role"], log[-1]["name"], log[-1]["event"]) == ("replica", "0/1", "stopped")


def test_a_signal_in_the_middle_of_a_start_is_heeded() -> None:
    process = start(
        """
class Slow(Trivial):
    async def start(self):
        self.say("starting")
        await asyncio.sleep(600)
run(Slow)"""
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"starting\n"
    process.send_signal(signal.SIGTERM)
    status, output, _ = finish(process)
    assert (status, output) == (0, ["stopped"])


def test_asking_twice_ends_a_server_that_does_not_stop() -> None:
    process = start(
        """
class Stuck(Trivial):
    async def stop(self):
        self.say("stopping")
        await asyncio.sleep(600)
run(Stuck)"""
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == b"stopping\n"
    process.send_signal(signal.SIGTERM)
    status, _, _ = finish(process)
    assert status == 1


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        ('Fenced("the disk failed a sync")', 3, "not to be started again in place: the disk failed a sync"),
        ('Unavailable("port 1 is taken")', 1, "port 1 is taken"),
        ('RuntimeError("a bug")', 1, "failed"),
    ],
)
@pytest.mark.parametrize("method", ["start", "wait"])
def test_failures_have_statuses_and_are_logged(method: str, error: str, status: int, words: str) -> None:
    process = start(
        f"""
class Failing(Trivial):
    async def {method}(self): raise {error}
run(Failing)"""
    )
    found, output, log = finish(process)
    assert (found, output[-1]) == (status, "stopped")
    (critical,) = [line for line in log if line["level"] == "critical"]
    assert words in critical["event"]
    assert ("trace" in critical) == ("RuntimeError" in error)


def test_a_failing_disk_fences_whatever_it_failed_at() -> None:
    process = start(
        """
class Failing(Trivial):
    async def wait(self):
        try:
            raise OSError(5, "Input/output error")
        except OSError as error:
            raise StorageError("writing the next segment failed") from error
run(Failing)"""
    )
    status, _, log = finish(process)
    assert status == 3
    assert "writing the next segment failed" in log[-1]["event"]


def test_a_sync_that_fails_at_the_end_fences_a_server_that_had_failed_otherwise() -> None:
    process = start(
        """
class Failing(Trivial):
    async def wait(self): raise Unavailable("nobody is there")
    async def stop(self): raise Fenced("the disk failed a sync")
run(Failing)"""
    )
    assert finish(process)[0] == 3


def test_what_failed_first_decides_the_status() -> None:
    process = start(
        """
class Failing(Trivial):
    async def wait(self): raise Fenced("the disk failed a sync")
    async def stop(self): raise RuntimeError("and now nothing works")
run(Failing)"""
    )
    status, _, log = finish(process)
    assert status == 3
    assert [line["event"] for line in log][-2] == "stopping failed, too"


def test_descriptors_and_threads_are_set_up_for_serving() -> None:
    process = start(
        """
class Asking(Trivial):
    async def start(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.say(f"{soft == hard} {sys.getswitchinterval():.4f} {type(asyncio.get_running_loop()).__module__}")
        self.ended.set()
resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
run(Asking)"""
    )
    status, output, _ = finish(process)
    assert (status, output) == (0, ["True 0.0001 uvloop", "stopped"])


def test_a_server_with_another_parent_than_its_supervisor_ends_at_once(tmp_path: Path) -> None:
    assert finish(start("run(Trivial)", ITHACA_SUPERVISOR="1"))[:2] == (1, [])
    process = start("run(Trivial)", ITHACA_SUPERVISOR=str(os.getpid()))
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 0


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Fenced("a sync failed"), 3),
        (OSError(errno.EIO, "Input/output error"), 3),
        (OSError(errno.EACCES, "Permission denied"), 1),
        (Corrupt("damaged"), 1),
        (ValueError("a bug"), 1),
    ],
)
def test_what_may_have_been_a_failed_sync_forbids_another_start(error: Exception, status: int) -> None:
    assert process.status_of(error) == status
