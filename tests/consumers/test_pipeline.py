"""A pipeline of three stages under random kills: what comes out is what plain Python makes of what went in.

Each stage is a process (the middle one two of them, members of a group), and is killed at random again and again, as
are servers; meanwhile orders are appended. Every order is in the bills exactly once, and those of one customer in
their order.
"""

import subprocess
import sys
import time
from collections import Counter, defaultdict
from random import Random
from threading import Thread
from typing import NamedTuple

import pytest
from tests.consumers.stages import PRICES, STAGES, enrich, read, write

import ithaca
from ithaca.model.engine import EngineName
from ithaca.testing import Cluster

CUSTOMERS = 12
BATCH = 8
PROGRAMS = ("read", "enrich", "enrich", "write")
DRAIN_S = 90.0
PAUSE_S = (0.1, 1.2)
"""Between two kills."""
SERVER_KILLED = 0.15
DOWN_S = 0.5

Orders = dict[bytes, list[bytes]]
"""Texts by customer, in their order."""


class Ran(NamedTuple):
    orders: Orders
    bills: Orders
    kills: Counter[str]


class Pipeline:
    """The processes of all stages."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._processes = [self._started(name) for name in PROGRAMS]

    def _started(self, name: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-m", "tests.consumers.stages", self._bootstrap, name])

    def kill(self, place: int) -> str:
        """SIGKILL to one of them, which is started again at once."""
        process = self._processes[place]
        assert process.poll() is None, f"{PROGRAMS[place]} ended by itself"
        process.kill()
        process.wait()
        self._processes[place] = self._started(PROGRAMS[place])
        return PROGRAMS[place]

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def order(random: Random, number: int) -> tuple[bytes, bytes]:
    """The key and the text of an order."""
    customer = f"customer-{random.randrange(CUSTOMERS)}"
    text = f"{customer};{number};{random.choice(sorted(PRICES))};{random.randint(1, 30)}"
    return b"text/" + customer.encode(), text.encode()


def produce(bootstrap: str, seed: int, rate: float, until_s: float, orders: Orders) -> None:
    """Append orders, each once, until the time is over."""
    random, number = Random(f"orders {seed}"), 0
    with ithaca.connect(bootstrap, timeout=60) as log:
        session = log.session("orders")
        while time.monotonic() < until_s:
            batch = [order(random, number + behind) for behind in range(BATCH)]
            number += BATCH
            session.append_many([text for _, text in batch], keys=[key for key, _ in batch])
            for key, text in batch:
                orders[key.removeprefix(b"text/")].append(text)
            time.sleep(BATCH / rate)


def piped(engine: EngineName, seconds: float, seed: int, rate: float) -> Ran:
    """Run it for so long, then until everything has come out."""
    random, kills = Random(f"kills {seed}"), Counter[str]()
    orders: Orders = defaultdict(list)
    with Cluster(engine=engine, shards=2, orderers=3, durability="os") as cluster:
        pipeline = Pipeline(cluster.bootstrap)
        until_s = time.monotonic() + seconds
        producer = Thread(target=produce, args=(cluster.bootstrap, seed, rate, until_s, orders))
        producer.start()
        try:
            while time.monotonic() < until_s:
                time.sleep(random.uniform(*PAUSE_S))
                kills[pipeline.kill(random.randrange(len(PROGRAMS)))] += 1
                if random.random() < SERVER_KILLED:
                    name = random.choice(cluster.names)
                    cluster.kill_server(name)
                    time.sleep(random.uniform(0, DOWN_S))
                    cluster.start_server(name)
                    kills["server"] += 1
            producer.join()
            return Ran(orders, drained(cluster.bootstrap, sum(map(len, orders.values()))), kills)
        finally:
            pipeline.close()


def drained(bootstrap: str, count: int) -> Orders:
    """The bills, once there are so many and every stage says that it has all."""
    deadline_s = time.monotonic() + DRAIN_S
    with ithaca.connect(bootstrap, timeout=60) as log:
        while True:
            assert time.monotonic() < deadline_s, "the stages did not finish"
            tail = log.tail()
            with log.read_range("earliest", tail) as records:
                found = list(records)
            done = {each.name: each.position for each in log.consumers()}
            last = {
                name: max((each.position for each in found if (each.key or b"").startswith(stage.takes)), default=0)
                for name, stage in STAGES.items()
            }
            bills = [each for each in found if (each.key or b"").startswith(b"bill/")]
            if len(bills) >= count and all(done.get(name, 0) > position for name, position in last.items()):
                break
            time.sleep(0.25)
    by_customer: Orders = defaultdict(list)
    for each in bills:
        assert each.key is not None
        by_customer[each.key.removeprefix(b"bill/")].append(each.value)
    return by_customer


def check(ran: Ran) -> None:
    plain = {customer: [write(enrich(read(text))) for text in texts] for customer, texts in ran.orders.items()}
    assert ran.bills == plain
    assert set(ran.kills) >= {"read", "enrich", "write"}


@pytest.mark.timeout(120)
def test_what_comes_out_is_what_plain_python_makes() -> None:
    check(piped("scalog", seconds=4, seed=7, rate=100))


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", ["scalog", "belfast"])
def test_for_five_minutes(engine: EngineName) -> None:
    ran = piped(engine, seconds=300, seed=23, rate=100)
    check(ran)
    assert sum(ran.kills.values()) > 100
    print(f"{engine}: {sum(map(len, ran.orders.values()))} orders, kills: {dict(ran.kills)}")
