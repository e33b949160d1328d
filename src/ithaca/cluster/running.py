"""A cluster brought up: supervised until it is asked to stop, here or in a process of its own."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ithaca.cluster.layout import servers_of, spares_of
from ithaca.cluster.limits import CLUSTER_START_TIMEOUT_S, SERVER_STOP_TIMEOUT_S
from ithaca.cluster.local import cluster_file, programs_of, supervisor_pid
from ithaca.cluster.log_files import log_path, open_log
from ithaca.cluster.status import ClusterStatus, cluster_status
from ithaca.cluster.supervisor import Program, Supervisor, Tell
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import Unavailable
from ithaca.model.security.tls import TLS
from ithaca.model.server_place import ServerPlace

SUPERVISOR_LOG = "supervisor"
_STATUS_POLL_S = 0.1
_NAMES_SHOWN = 2


async def run_cluster(
    directory: Path, file: ClusterFile, *, tell: Tell, progress: Tell, ready: Callable[[], object]
) -> None:
    """Supervise the cluster of a locked directory until a signal asks to stop. `ready` is called once it is healthy."""

    def reread() -> list[Program]:
        return programs_of(directory, cluster_file(directory))

    supervisor = Supervisor(directory, programs_of(directory, file), tell, reread=reread)

    async def await_health() -> None:
        await healthy(servers_of(file) + spares_of(file), file.client_tls, progress)
        ready()

    awaiting = asyncio.create_task(await_health())
    try:
        await supervisor.run()
    finally:
        awaiting.cancel()
        with suppress(asyncio.CancelledError):
            await awaiting


def changes_only(progress: Callable[[str], object]) -> Tell:
    """A cluster is asked many times how it is; the same answer again tells nothing."""
    newest = ""

    def tell(text: str) -> None:
        nonlocal newest
        if text != newest:
            newest = text
            progress(text)

    return tell


async def healthy(places: Sequence[ServerPlace], tls: TLS | None, progress: Tell) -> ClusterStatus:
    """Ask until nothing is wrong any more; `progress` is told what is still missing."""
    while (health := (status := await cluster_status(places, tls)).health).problems:
        unready = list(health.unwell)
        progress(_waiting_for(unready, len(places)) if unready else f"waiting: {health.problems[0]}")
        await asyncio.sleep(_STATUS_POLL_S)
    return status


def _waiting_for(names: list[str], count: int) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
    return f"waiting for {len(names)} of {count} servers: {shown}"


def start_detached(directory: Path, progress: Tell) -> ClusterFile:
    """Have a process of its own supervise the cluster that is in the directory; returns when it is healthy."""
    file = cluster_file(directory)
    log = log_path(directory, SUPERVISOR_LOG)
    output = open_log(directory, SUPERVISOR_LOG)
    said_before = log.stat().st_size
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ithaca", "up", "--dir", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)
    try:
        asyncio.run(_healthy_while_running(process, file, progress))
    except BaseException as error:
        if process.poll() is not None:
            said = log.read_bytes()[said_before:].decode(errors="replace").strip().splitlines()
            reason = said[-1] if said else f"status {process.returncode}; {log} says nothing"
            raise Unavailable(f"the supervisor ended: {reason}") from None
        has_begun = supervisor_pid(directory) is not None
        if not isinstance(error, Unavailable) or not has_begun:  # Ctrl-C, or nobody could stop it: leave nothing behind
            process.terminate()
            process.wait(2 * SERVER_STOP_TIMEOUT_S)
        if isinstance(error, Unavailable) and not has_begun:
            raise Unavailable(
                f"the supervisor had not begun after {CLUSTER_START_TIMEOUT_S:g} s, and was ended: this machine may be "
                "too busy; try again"
            ) from None
        raise
    process.returncode = 0  # it goes on alone, and Python must not warn that nobody waits for it
    return file


async def _healthy_while_running(process: "subprocess.Popen[bytes]", file: ClusterFile, progress: Tell) -> None:
    newest = ""

    def remember(text: str) -> None:
        nonlocal newest
        newest = text
        progress(text)

    asking = asyncio.create_task(healthy(servers_of(file) + spares_of(file), file.client_tls, remember))
    deadline = time.monotonic() + CLUSTER_START_TIMEOUT_S
    try:
        while not asking.done():
            if process.poll() is not None:
                raise Unavailable("the supervisor ended")
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"the cluster runs, but is not healthy after {CLUSTER_START_TIMEOUT_S:g} s ({newest}): look at "
                    "ithaca status and ithaca logs, or stop it with ithaca down"
                )
            await asyncio.wait({asking}, timeout=_STATUS_POLL_S)
        asking.result()
    finally:
        asking.cancel()
