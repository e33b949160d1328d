"""Faults of disks: failing syncs, no space, power loss."""

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import ClassVar

import ithaca.aio
from ithaca.model.errors import IthacaError
from ithaca.server.process import FENCED
from ithaca.torture.cluster_under_test import POLL_S, ClusterUnderTest, process_state
from ithaca.torture.faults.injectors import Broken, Injector, NotFired, Scene, Struck
from ithaca.torture.plan import Fault, Strike

EFFECT_S = 20.0
"""How long a server may go on before it meets the fault of its disk."""
FULL_S = 60.0
"""How long a replica may go on with space that it has already: one that gets few records needs no other for a while."""
DOWN_S = 1.0
"""In so much time a wrong supervisor would start a fenced server again."""
_SYNCS = "pwritev2,fdatasync,fsync"
"""The system calls by which servers sync."""


class SyncError(Injector):
    """Syncs and the writes before them fail with EIO: the server must fence itself, and stay down until it is started.

    A replica is started again with what it had, or with an empty directory; an orderer with what it had.
    """

    fault: ClassVar[Fault] = Fault("eio", "server", recovery_s=6.0, variants=("keep", "wipe"), alone=True)

    @classmethod
    def unavailable(cls) -> str | None:
        if shutil.which("strace") is None:
            return "strace is not installed"
        with subprocess.Popen(["sleep", "60"]) as victim:
            try:
                command = ["timeout", "1", "strace", "-f", "-qq", "-o", "/dev/null", "-p", str(victim.pid)]
                done = subprocess.run(command, capture_output=True, text=True)
            finally:
                victim.kill()
        return None if not done.stderr else f"strace cannot attach to a process: {done.stderr.strip()}"

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        cluster = scene.cluster
        for name in await scene.servers(strike):
            await self._fence(cluster, name)
            struck(f"{strike.variant} {name}")
            await asyncio.sleep(DOWN_S)
            if cluster.children()[name].phase != "fenced":
                raise Broken(f"{name} was started again after it had fenced itself")
            await cluster.stop()
            if strike.variant == "wipe" and cluster.places[name].role != "orderer":
                cluster.wipe(name)
            cluster.start()
            await cluster.healed()

    async def _fence(self, cluster: ClusterUnderTest, name: str) -> None:
        pid = cluster.pid(name)
        tracer = _fail_syncs(pid)
        busy = asyncio.create_task(_open_sessions(cluster))
        try:
            await cluster.until(lambda: cluster.children()[name].pid != pid, f"{name} meets EIO", EFFECT_S)
            status = cluster.children()[name].status
            if status != FENCED:
                raise Broken(f"{name} met EIO, and ended with status {status} instead of fencing itself")
        finally:
            busy.cancel()
            await asyncio.gather(busy, return_exceptions=True)
            tracer.terminate()
            tracer.wait()


async def _open_sessions(cluster: ClusterUnderTest) -> None:
    """Have orderers agree on something: there are engines in which they write nothing while records are appended."""
    while True:
        with suppress(IthacaError):
            async with ithaca.aio.connect(cluster.bootstrap, timeout=5) as log:
                await log.session("struck")
        await asyncio.sleep(1)


class _LoopFault(Injector):
    """Needs a disk for each server."""

    needs_disks: ClassVar[bool] = True

    @classmethod
    def unavailable(cls) -> str | None:
        """Asked in another process: this one would have to leave its mount namespace for it."""
        code = "from ithaca.torture import disks; print(disks.unavailable() or '')"
        done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
        if done.returncode != 0:
            return f"disks cannot be tried here: {done.stderr.strip().splitlines()[-1]}"
        return done.stdout.strip() or None


class Full(_LoopFault):
    """No space is left on a replica's disk: it must refuse, say so, and go on when there is space again."""

    fault: ClassVar[Fault] = Fault("full", "replica", (1.0, 3.0), recovery_s=3.0)

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        (name,) = await scene.servers(strike)
        disk = scene.disks[name]
        disk.fill()
        try:
            deadline = time.monotonic() + FULL_S
            while (said := await scene.cluster.said_by(name)) is None or said["state"] != "full":
                if time.monotonic() > deadline:
                    raise NotFired(f"{name} had no space for {FULL_S:.0f} s, and does not say that it is full: {said}")
                await asyncio.sleep(POLL_S)
            struck(name)
            await asyncio.sleep(strike.duration_s)
        finally:
            disk.free()


class Power(_LoopFault):
    """All servers lose power at the same instant, and start again with what was on their disks."""

    fault: ClassVar[Fault] = Fault("power", "all", recovery_s=6.0)

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        cluster = scene.cluster
        pids = [child.pid for child in cluster.children().values() if child.pid is not None]
        # Stopped first: nothing is promised any more between the loss of one disk and that of the next.
        for name, child in cluster.children().items():
            if child.pid is not None:
                cluster.signal(name, signal.SIGSTOP)
        await cluster.until(
            lambda: all(process_state(pid) in ("T", "") for pid in pids), "every server is stopped", EFFECT_S
        )
        for disk in scene.disks.values():
            disk.lose_power()
        await cluster.kill()
        for disk in scene.disks.values():
            disk.unmount()
            disk.mount()
        struck(f"loss of {len(scene.disks)} disks")
        cluster.start()


def _fail_syncs(pid: int | None) -> "subprocess.Popen[bytes]":
    """Have every sync of a process fail for as long as the returned process runs."""
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={_SYNCS}:error=EIO", "-p", str(pid)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)
