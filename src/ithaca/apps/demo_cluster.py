"""`ithaca demo cluster`: a cluster, producers, followers, a killed replica and its return, with every claim checked."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

import ithaca
from ithaca.apps.demo_cast import Cast, DemoFailed, Ready, is_running
from ithaca.apps.demo_cluster_checks import Checker
from ithaca.apps.demo_cluster_processes import (
    STEADY_RECORDS_PER_S,
    Acknowledged,
    Errand,
    follow,
    produce,
)
from ithaca.apps.demo_display import Display
from ithaca.apps.demo_follower import Followed
from ithaca.apps.demo_home import demo_home
from ithaca.apps.demo_story import check_engine, told
from ithaca.cluster.layout import servers_of
from ithaca.cluster.running import healthy
from ithaca.cluster.state import ChildState
from ithaca.cluster.temporary import Shape, TemporaryCluster, temporary_cluster
from ithaca.model.engine import EngineName, Feature

SHAPE = Shape(shards=2, replicas=2, orderers=3)
PRODUCERS = 4
FOLLOWERS = ("follower 1", "follower 2")
CHECKER = "checker"
STEADY_S = 8.0
"""How long the producers keep to a steady pace, at most; at most half of their transactions."""
KILL_AFTER = 0.6
"""The replica is killed when this part of all transactions is acknowledged."""
HEALTHY_TIMEOUT_S = 30.0


def run_cluster_demo(records: int, directory: Path | None, keep: bool, engine: EngineName) -> bool:
    """Tell the story; True when every claim held."""
    check_engine(engine, Feature.SESSIONS, Feature.SHARDS)
    last = records // PRODUCERS
    names = [producer_name(number) for number in range(1, PRODUCERS + 1)]
    totals = dict.fromkeys(names, last) | dict.fromkeys([*FOLLOWERS, CHECKER], PRODUCERS * last)
    display = Display(totals)
    with demo_home(directory, keep) as home:
        if not told(ClusterStory(last, home / "cluster", display, engine), display):
            return False
        if keep:
            display.say(f"the cluster is kept; start it again with: ithaca up --dir {home / 'cluster'}")
    return True


def producer_name(producer: int) -> str:
    return f"producer {producer}"


class ClusterStory:
    """The chapters in order, what the processes have said, and the figures at the end."""

    def __init__(self, last: int, directory: Path, display: Display, engine: EngineName) -> None:
        self._last = last
        self._total = PRODUCERS * last
        self._steady = min(last // 2, round(STEADY_S * STEADY_RECORDS_PER_S))
        self._directory = directory
        self._shape = replace(SHAPE, engine=engine)
        self._display = display
        self._ready = 0
        self._acknowledged: list[Acknowledged] = []
        self._done = dict.fromkeys(range(1, PRODUCERS + 1), 0)
        self._endings: dict[str, Followed] = {}
        self._checker = Checker(PRODUCERS, last)
        self._fast_s = self._killed_s = 0.0
        self._victim_shard = -1
        self._pids: set[int] = set()

    def tell(self) -> None:
        """Everything, until the last process is gone."""
        servers = SHAPE.orderers + SHAPE.shards * SHAPE.replicas
        self._display.say(
            f"1. starting a cluster: {SHAPE.orderers} orderers, {SHAPE.shards} shards of {SHAPE.replicas} replicas"
        )
        started = time.perf_counter()
        with temporary_cluster(self._directory, self._shape, lambda text: None) as cluster:
            self._display.say(f"   {servers} servers are up after {time.perf_counter() - started:.1f} s")
            with Cast() as cast:
                self._produce(cluster, cast)
                self._kill_a_replica(cluster)
                self._finish(cast)
            self._check_restart(cluster)
            self._check_everything(cluster)
            self._remember(cluster)
        self._check_nothing_left()

    # The chapters

    def _produce(self, cluster: TemporaryCluster, cast: Cast) -> None:
        """Start everybody, let them begin together, and listen until it is time for the kill."""
        for name in FOLLOWERS:
            cast.start(name, follow, cluster.bootstrap, self._total, self._steady)
        for number in self._done:
            errand = Errand(cluster.bootstrap, number, number % SHAPE.shards, self._last, self._steady)
            cast.start(producer_name(number), produce, errand)
        self._listen(cast, until=lambda: self._ready == len(self._done) + len(FOLLOWERS))
        self._display.say(
            f"2. {PRODUCERS} producers append {self._last} transactions each; {len(FOLLOWERS)} followers read along"
        )
        self._tell_producers(cast, "go")
        self._listen(cast, until=lambda: all(done == self._steady for done in self._done.values()))
        self._fast_s = time.monotonic()
        self._tell_producers(cast, "at full speed")
        self._listen(cast, until=lambda: sum(self._done.values()) >= KILL_AFTER * self._total)

    def _kill_a_replica(self, cluster: TemporaryCluster) -> None:
        """SIGKILL to a replica of the shard whose producers have the most left to do."""
        slowest = min(self._done, key=lambda number: self._done[number])
        self._victim_shard = slowest % SHAPE.shards
        self._remember(cluster)
        victim = self._victim(cluster)
        assert victim.pid is not None, f"{victim.name} runs before it is killed"
        os.kill(victim.pid, signal.SIGKILL)
        self._killed_s = time.monotonic()
        done = sum(self._done.values())
        self._display.say(
            f"3. kill -9 {victim.pid}, which was {victim.name}: {done} transactions were acknowledged by then"
        )

    def _finish(self, cast: Cast) -> None:
        """Let the producers append their last batches, and hear everybody out."""
        self._tell_producers(cast, "finish")
        self._listen(cast, until=lambda: self._recovery_s is not None)
        self._display.say(f"4. appends to shard {self._victim_shard} went on {self._recovery_s:.2f} s after the kill")
        self._listen(
            cast, until=lambda: sum(self._done.values()) == self._total and len(self._endings) == len(FOLLOWERS)
        )

    def _check_restart(self, cluster: TemporaryCluster) -> None:
        victim = self._victim(cluster)
        if victim.restarts != 1 or victim.phase != "running":
            raise DemoFailed(f"{victim.name} was started again {victim.restarts} times, and is {victim.phase}")
        try:
            asyncio.run(
                asyncio.wait_for(
                    healthy(servers_of(cluster.file), cluster.file.client_tls, lambda text: None), HEALTHY_TIMEOUT_S
                )
            )
        except TimeoutError:
            raise DemoFailed(f"the cluster is not healthy {HEALTHY_TIMEOUT_S:.0f} s after the last append") from None
        self._display.say(f"5. {victim.name} was started again by the supervisor; every server is well")

    def _check_everything(self, cluster: TemporaryCluster) -> None:
        """Read the log once more, against the transactions, the receipts, and what followers saw."""
        with ithaca.connect(cluster.bootstrap) as log:
            seen = 0
            for batch in log.read_range(1).batches():
                records = batch.records()
                self._checker.see(records)
                seen += len(records)
                self._display.advance(CHECKER, seen)
            if seen != self._total:
                raise DemoFailed(f"{self._total} transactions were sent, and the log holds {seen}")
        digests = {name: ending.digest for name, ending in self._endings.items()}
        self._checker.finish(self._acknowledged, digests)
        self._display.say("6. every transaction is there exactly once, in its producer's order, where its receipt says")
        self._display.say("   both followers saw exactly what the log holds, in the same order")

    def _check_nothing_left(self) -> None:
        left = sorted(pid for pid in self._pids if is_running(pid))
        if left:
            raise DemoFailed(f"processes are left behind: {', '.join(map(str, left))}")
        self._display.say("7. the cluster is stopped, and no process is left")

    # What is said and heard, and what is known

    def _tell_producers(self, cast: Cast, word: str) -> None:
        for number in self._done:
            cast.tell(producer_name(number), word)

    def _listen(self, cast: Cast, until: Callable[[], bool]) -> None:
        messages = cast.messages()
        while not until():
            name, message = next(messages)
            if isinstance(message, Ready):
                self._ready += 1
            elif isinstance(message, Acknowledged):
                self._acknowledged.append(message)
                self._done[message.producer] += message.count
                self._display.advance(name, self._done[message.producer])
            elif isinstance(message, Followed):
                if message.problem:
                    raise DemoFailed(f"{name} saw positions that do not rise: {message.problem}")
                self._display.advance(name, message.count)
                if message.digest:
                    self._endings[name] = message

    def _victim(self, cluster: TemporaryCluster) -> ChildState:
        name = f"shard-{self._victim_shard}-replica-0"
        return next(child for child in cluster.state().children if child.name == name)

    def _remember(self, cluster: TemporaryCluster) -> None:
        state = cluster.state()
        self._pids |= {state.pid, *(child.pid for child in state.children if child.pid is not None)}

    @property
    def _recovery_s(self) -> float | None:
        """From the kill to the first receipt of an append to that shard which began after it."""
        after = [
            each.done_s - self._killed_s
            for each in self._acknowledged
            if each.shard == self._victim_shard and each.began_s >= self._killed_s
        ]
        return min(after, default=None)

    def figures(self) -> list[tuple[str, str]]:
        """What the story measured, as rows of a table."""
        lags_ms = np.concatenate([ending.lags_ms for ending in self._endings.values()])
        p50, p99 = np.percentile(lags_ms, [50, 99])
        pace = f"{PRODUCERS * STEADY_RECORDS_PER_S:,} records/s"
        assert self._recovery_s is not None
        return [
            ("records", f"{self._total:,}"),
            ("values", f"{self._checker.value_bytes / 1e6:,.1f} MB"),
            ("appended at full speed, synced twice, ordered", f"{self._full_speed():,.0f} records/s"),
            (f"follower lag at {pace}, p50", f"{p50:.2f} ms"),
            (f"follower lag at {pace}, p99", f"{p99:.2f} ms"),
            ("from the kill until appends to that shard went on", f"{self._recovery_s:.2f} s"),
        ]

    def _full_speed(self) -> float:
        """Of all producers together, from when they went to full speed until the kill."""
        before = [each for each in self._acknowledged if self._fast_s <= each.done_s <= self._killed_s]
        return sum(each.count for each in before) / (self._killed_s - self._fast_s)
