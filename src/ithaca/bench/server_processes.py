"""Servers of a cluster as processes of a measurement: they end with it, and nobody starts them again."""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ithaca.cluster.layout import serve_command
from ithaca.cluster.limits import SERVER_STOP_TIMEOUT_S
from ithaca.cluster.log_files import open_log
from ithaca.model.server_place import ServerPlace
from ithaca.server.process import SUPERVISOR

ServerProcess = subprocess.Popen[bytes]
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def start_server(
    directory: Path, place: ServerPlace, logs: Path, command: Sequence[str] | None = None
) -> ServerProcess:
    """Start a server of the file in `directory`, by another command if one is given; it prints to a log in `logs`."""
    output = open_log(logs, place.name)
    try:
        return subprocess.Popen(
            serve_command(directory, place) if command is None else command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | {SUPERVISOR: str(os.getpid())},  # they end with this process, whatever ends it
            start_new_session=True,
        )
    finally:
        os.close(output)


def stop_servers(processes: Sequence[ServerProcess]) -> None:
    """Stop them all at the same time, and kill those that do not."""
    for process in processes:
        process.terminate()
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(SERVER_STOP_TIMEOUT_S)
        process.kill()
        process.wait()


def cpu_s(pid: int) -> float:
    """The user and system time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def written_bytes(process: ServerProcess) -> int:
    """What a server has had the kernel write to the disk."""
    return _counted(process, "write_bytes")


def writes(process: ServerProcess) -> int:
    """How often a server has written to anything: a file, a connection, a pipe."""
    return _counted(process, "syscw")


def _counted(process: ServerProcess, wanted: str) -> int:
    for line in Path(f"/proc/{process.pid}/io").read_text().splitlines():
        name, _, count = line.partition(": ")
        if name == wanted:
            return int(count)
    raise AssertionError("the kernel does not count what processes write")
