"""Faults of processes: killed, stopped, started again, with another clock; servers and clients."""

import asyncio
import shutil
import signal
import subprocess
from typing import ClassVar

from ithaca.torture.cluster_under_test import ClusterUnderTest, is_running, process_state
from ithaca.torture.faults.injectors import Injector, NotFired, Scene, Struck
from ithaca.torture.plan import Fault, Strike

END_S = 15.0
"""How long a process may take to follow a signal."""
CLOCK_JUMPS = ("+1h", "-1h", "+25h", "-25h", "+365d", "-365d")
"""As faketime takes them: more than a usual age of retention, and than any time to live."""


class Kill(Injector):
    """SIGKILL to servers; their supervisor starts them again."""

    fault: ClassVar[Fault] = Fault("kill", "server")

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        for name in await scene.servers(strike):
            await ended(scene.cluster, name, scene.cluster.signal(name, signal.SIGKILL))
            struck(name)


class KillAll(Injector):
    """SIGKILL to every server and their supervisor at once; then everything is started again."""

    fault: ClassVar[Fault] = Fault("killall", "all", recovery_s=4.0)

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        killed = await scene.cluster.kill()
        if not killed:
            raise NotFired("nothing was running")
        struck(f"{len(killed)} processes")
        scene.cluster.start()


class Pause(Injector):
    """SIGSTOP, and SIGCONT after a while."""

    fault: ClassVar[Fault] = Fault("pause", "server", (1.0, 6.0))

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        stopped = []
        try:
            for name in await scene.servers(strike):
                pid = scene.cluster.signal(name, signal.SIGSTOP)
                stopped.append(name)
                await _stopped(scene.cluster, name, pid)
                struck(f"{name} for {strike.duration_s} s")
            await asyncio.sleep(strike.duration_s)
        finally:
            for name in stopped:
                scene.cluster.signal(name, signal.SIGCONT)


class LongPause(Pause):
    """SIGSTOP for longer than time-outs and the patience of others last."""

    fault: ClassVar[Fault] = Fault("longpause", "server", (10.0, 15.0))


class Rolling(Injector):
    """SIGTERM to each server of a group in turn; the next when all are well again."""

    fault: ClassVar[Fault] = Fault("rolling", "group", recovery_s=6.0)

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        cluster = scene.cluster
        (group,) = strike.targets
        names = [
            name
            for name, place in cluster.places.items()
            if group == ("orderers" if place.role == "orderer" else f"shard-{place.shard}")
        ]
        for name in names:
            await cluster.healed()
            pid = cluster.signal(name, signal.SIGTERM)
            await ended(cluster, name, pid)
            struck(name)


class Client(Injector):
    """SIGKILL to a producer with appends in flight; it is started again, and goes on with its session."""

    fault: ClassVar[Fault] = Fault("client", "producer", recovery_s=0.5)

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        for name in strike.targets:
            pid = await scene.clients.kill(name)
            struck(f"{name}, process {pid}")


class Consumer(Injector):
    """SIGKILL to a consumer, or to a member of a group, or SIGSTOP for longer than its lease and SIGCONT."""

    fault: ClassVar[Fault] = Fault("consumer", "consumer", (2.0, 8.0), recovery_s=0.5, variants=("kill", "pause"))

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        (name,) = strike.targets
        if strike.variant == "kill":
            struck(f"{name} killed, process {await scene.clients.kill(name)}")
        else:
            struck(f"{name} for {strike.duration_s} s, process {await scene.clients.pause(name, strike.duration_s)}")


class Clock(Injector):
    """A server is started again with a clock that is far ahead or behind, and later with the right one."""

    fault: ClassVar[Fault] = Fault("clock", "server", (2.0, 4.0), recovery_s=4.0, variants=CLOCK_JUMPS)

    @classmethod
    def unavailable(cls) -> str | None:
        if shutil.which("faketime") is None:
            return "faketime is not installed"
        done = subprocess.run(["faketime", "-f", CLOCK_JUMPS[0], "true"], capture_output=True, text=True)
        return None if done.returncode == 0 else f"faketime does not work: {done.stderr.strip()}"

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        names = await scene.servers(strike)
        variables = {
            "LD_PRELOAD": _faketime_library(),
            "FAKETIME": strike.variant,
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        try:
            for name in names:
                scene.cluster.environment(name, variables)
                await restarted(scene.cluster, name)
                struck(f"{strike.variant} {name}")
            await asyncio.sleep(strike.duration_s)
        finally:
            for name in names:
                scene.cluster.environment(name, {})
        for name in names:
            await restarted(scene.cluster, name)


def _faketime_library() -> str:
    """What the dynamic linker is told to load first."""
    command = ["faketime", "-m", "-f", "+0", "printenv", "LD_PRELOAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


async def _stopped(cluster: ClusterUnderTest, name: str, pid: int) -> None:
    await cluster.until(lambda: process_state(pid) == "T", f"{name} is stopped", END_S)


async def restarted(cluster: ClusterUnderTest, name: str) -> None:
    """Ask a server to stop, and wait until another process has taken its place."""
    pid = cluster.signal(name, signal.SIGTERM)
    await ended(cluster, name, pid)
    await cluster.until(lambda: cluster.pid(name) not in (None, pid), f"{name} is started again", END_S)


async def ended(cluster: ClusterUnderTest, name: str, pid: int) -> None:
    await cluster.until(lambda: not is_running(pid), f"{name} has ended", END_S)
