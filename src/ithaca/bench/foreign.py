"""Servers of other people as processes of a measurement: on loopback, in a directory of their own, gone afterwards."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ithaca.cluster.ports import LOOPBACK
from ithaca.cluster.temporary import terminations_raised
from ithaca.model.errors import Unavailable

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 10.0
POLL_S: Final = 0.05
LAST_WORDS: Final = 10
"""Lines of its output that are told when it does not start."""

Command = Sequence[str | os.PathLike[str]]


@contextmanager
def foreign_server(name: str, command: Command, output: Path, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A server that listens on `port`, until the context is left; what it prints goes to `output`."""
    with terminations_raised(), output.open("ab") as stream:
        try:
            process = subprocess.Popen(
                [os.fspath(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,  # Ctrl-C is ours, and we stop it
            )
        except OSError as error:
            raise cannot_start(command, error) from error
        try:
            _wait_until_it_listens(name, process, port, output)
            yield process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT_S)
            process.kill()
            process.wait()


def run_tool(name: str, what: str, command: Command, output: Path) -> None:
    """Run what has to be done before a server can start, such as formatting its directory."""
    with output.open("ab") as stream:
        try:
            done = subprocess.run(
                [os.fspath(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                timeout=START_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise failed(name, f"did not {what} within {START_TIMEOUT_S:.0f} s", output) from None
        except OSError as error:
            raise cannot_start(command, error) from error
    if done.returncode != 0:
        raise failed(name, f"did not {what} (status {done.returncode})", output)


def cannot_start(command: Command, error: OSError) -> Unavailable:
    return Unavailable(f"{command[0]} cannot be started: {error.strerror or error}")


def failed(name: str, what: str, output: Path) -> Unavailable:
    """What a server did wrong, with the last that it said."""
    lines = output.read_text(errors="replace").strip().splitlines()[-LAST_WORDS:]
    return Unavailable("\n".join([f"{name} {what}; the last it said:", *(lines or ["(nothing)"])]))


def _wait_until_it_listens(name: str, process: "subprocess.Popen[bytes]", port: int, output: Path) -> None:
    give_up_at = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None:
        try:
            socket.create_connection((LOOPBACK, port), timeout=START_TIMEOUT_S).close()
            return
        except OSError:
            if time.monotonic() > give_up_at:
                raise failed(name, f"did not listen within {START_TIMEOUT_S:.0f} s", output) from None
            time.sleep(POLL_S)
    raise failed(name, f"ended with status {process.returncode}", output)
