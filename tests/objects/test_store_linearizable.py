"""Concurrent clients of a store, on real logs, while servers are killed: some order explains what they saw."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import inf
from pathlib import Path
from random import Random

import pytest
from tests.objects.linearizable import Operation, Recorder, explained
from tests.shipped import ENGINES

import ithaca
from ithaca.model.interface import Batch, Log
from ithaca.objects import Store
from ithaca.testing import Cluster

KEYS = 3
OPERATIONS_MAX = 400


def put(called: float, returned: float, **writes: str) -> Operation:
    return Operation("put", called, returned, {}, {int(key[1:]): value for key, value in writes.items()}, True)


def got(called: float, returned: float, **values: str | None) -> Operation:
    keys = {int(key[1:]): value for key, value in values.items()}
    return Operation("get", called, returned, dict.fromkeys(keys), {}, keys)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([put(0, 1, k0="a"), got(2, 3, k0="a")], True),
        ([put(0, 1, k0="a"), got(2, 3, k0=None)], False),
        ([put(0, 5, k0="a"), got(1, 2, k0=None), got(3, 4, k0="a")], True),
        ([put(0, 5, k0="a"), got(1, 2, k0="a"), got(3, 4, k0=None)], False),
        ([put(0, 5, k0="a", k1="a"), got(1, 2, k0="a", k1=None)], False),
        ([put(0, inf, k0="a"), got(1, 2, k0=None), got(8, 9, k0="a")], True),
        ([put(0, inf, k0="a"), got(1, 2, k0="a"), got(8, 9, k0=None)], False),
        (
            [Operation("test", 0, 5, {0: None}, {0: "a"}, True), Operation("test", 1, 4, {0: None}, {0: "b"}, True)],
            False,
        ),
        (
            [Operation("test", 0, 5, {0: None}, {0: "a"}, True), Operation("test", 1, 4, {0: None}, {0: "b"}, False)],
            True,
        ),
    ],
)
def test_the_judge_knows_right_from_wrong(history: list[Operation], expected: bool) -> None:
    assert explained(history, KEYS) is expected


def work(
    recorder: Recorder, stores: list[Store], random: Random, client: int, count: int, ended: threading.Event
) -> None:
    for number in range(OPERATIONS_MAX):
        if number >= count and ended.is_set():
            break
        store = random.choice(stores)
        keys = random.sample(range(KEYS), random.randint(1, KEYS))
        value = f"{client}-{number}"
        choice = random.random()
        if choice < 0.35:
            recorder.get(store, keys)
        elif choice < 0.65:
            recorder.put(store, {key: random.choice([value, None]) for key in keys})
        else:
            expected = random.choice([None, f"{random.randrange(3)}-{random.randrange(number + 1)}"])
            recorder.test(store, {keys[0]: expected}, dict.fromkeys(keys, value))


def run(
    stores: list[Store], seed: int, *, clients: int = 3, count: int = 25, meanwhile: Callable[[], None] | None = None
) -> Recorder:
    """So many operations by each client, and more until what happens meanwhile is over."""
    recorder, ended = Recorder(), threading.Event()
    threads = [
        threading.Thread(target=work, args=(recorder, stores, Random(seed * 100 + client), client, count, ended))
        for client in range(clients)
    ]
    for thread in threads:
        thread.start()
    if meanwhile is not None:
        meanwhile()
    ended.set()
    for thread in threads:
        thread.join()
    return recorder


def judge(recorder: Recorder, tmp_path: Path) -> None:
    recorder.save(tmp_path / "history.json")
    assert explained(recorder.history, KEYS), f"no order explains {tmp_path / 'history.json'}"


@contextmanager
def opened(logs: list[Log], *, state: Path | None = None) -> Iterator[list[Store]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(Store(log, "judged", state=None if state is None else state / f"{number}.db"))
            for number, log in enumerate(logs)
        ]


@pytest.mark.parametrize("seed", range(3))
def test_on_the_log_of_a_directory(tmp_path: Path, seed: int) -> None:
    with ithaca.open(tmp_path / "log") as log, opened([log, log, log]) as stores:
        judge(run(stores, seed), tmp_path)


def test_in_files_of_sqlite(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log") as log, opened([log, log], state=tmp_path) as stores:
        judge(run(stores, 7), tmp_path)


def test_reads_that_are_not_fresh_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same judge on reads that may be behind: one that finds nothing wrong with them is worth nothing."""
    with ithaca.open(tmp_path / "log") as log, opened([log, log]) as stores:
        recorder, slow = Recorder(), stores[1]._replica
        go_on, arrived = threading.Event(), slow._arrived

        def late(batches: list[Batch], covered: int) -> None:
            go_on.wait()
            arrived(batches, covered)

        monkeypatch.setattr(slow, "_arrived", late)
        recorder.put(stores[0], {0: "new"})
        recorder.get(stores[1], [0], at_least=0)
        go_on.set()
        assert not explained(recorder.history, KEYS)
        recorder.history.pop()
        recorder.get(stores[1], [0])
        assert explained(recorder.history, KEYS)


def kills(cluster: Cluster, rounds: int) -> None:
    """Each server in turn is killed and started again."""
    names = cluster.names
    for number in range(rounds):
        name = names[number % len(names)]
        cluster.kill_server(name)
        cluster.start_server(name)
        cluster.wait_healthy()


def on_a_cluster(tmp_path: Path, engine: str, seed: int, *, count: int, rounds: int) -> None:
    with Cluster(tmp_path / "cluster", engine=engine, shards=2, orderers=3) as cluster, ExitStack() as stack:
        logs: list[Log] = [stack.enter_context(ithaca.connect(cluster.bootstrap)) for _ in range(3)]
        with opened(logs) as stores:
            judge(run(stores, seed, count=count, meanwhile=lambda: kills(cluster, rounds)), tmp_path)


@pytest.mark.parametrize("engine", ENGINES)
def test_on_a_cluster_whose_servers_are_killed(tmp_path: Path, engine: str) -> None:
    on_a_cluster(tmp_path, engine, 1, count=25, rounds=3)


@pytest.mark.campaign
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(20))
def test_on_clusters_whose_servers_are_all_killed(tmp_path: Path, engine: str, seed: int) -> None:
    on_a_cluster(tmp_path, engine, seed, count=60, rounds=14)
