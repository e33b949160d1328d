"""The consumers of a run: what they write down is judged, with what they write into the log."""

import asyncio
from collections.abc import Awaitable, Callable
from multiprocessing import Pipe
from pathlib import Path

import pytest
from tests.torture.test_torture import tortured

import ithaca.aio
from ithaca.engines import registry
from ithaca.model.engine import EngineName, Feature
from ithaca.model.records import Durability
from ithaca.proof.checker import check
from ithaca.proof.dump import dump_replica
from ithaca.proof.history import AnyEvent, Append, Commit, Hand, Own, Plan, read_history
from ithaca.proof.payload import HEAD_BYTES, encode
from ithaca.storage.disk import OsDisk
from ithaca.testing import Cluster
from ithaca.torture.clients.batches import KEYS
from ithaca.torture.clients.client import Client, Errand, Finish
from ithaca.torture.clients.consumers import consume, take_part
from ithaca.torture.clients.taking import OUT_KEY

RECORDS = 300


async def consumed(cluster: Cluster, home: Path, *, writes: bool) -> list[AnyEvent]:
    """What a consumer and two members of a group say that consume what is appended meanwhile, and what that is."""
    behaviours: list[Callable[[Client], Awaitable[None]]] = [consume, take_part, take_part]
    pipes = [Pipe() for _ in behaviours]
    clients = [
        Client(theirs, Errand(f"client-{number}", number, 0, cluster.bootstrap, home, 42, 1.0, writes))
        for number, (_, theirs) in enumerate(pipes, 1)
    ]
    tasks = [asyncio.ensure_future(behave(client)) for behave, client in zip(behaviours, clients, strict=True)]
    events: list[AnyEvent] = []
    async with ithaca.aio.connect(cluster.bootstrap) as log:
        for number in range(RECORDS):
            text = [*KEYS, None][number % 9]
            await log.append(encode(7, number, HEAD_BYTES), key=None if text is None else text.encode())
            events.append(Append((7, number), 1, 0, 1 << 61, "info", key=text))
        for client in clients:
            client.finish = Finish(await log.tail())
        await asyncio.gather(*tasks)
    for client, (ours, theirs) in zip(clients, pipes, strict=True):
        client.close()
        ours.close()
        theirs.close()
    return [*events, *said(home)]


def said(home: Path) -> list[AnyEvent]:
    """What all clients have written down."""
    return [event for path in sorted(home.glob("*.jsonl")) for event in read_history(path)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("engine", "writes"), [("scalog", True), ("scalog", False), ("corfu", False)])
async def test_what_they_say_is_complete(tmp_path: Path, engine: EngineName, writes: bool) -> None:
    durability: Durability = "fsync" if engine == "corfu" else "os"
    with Cluster(tmp_path / "cluster", engine=engine, replicas=1, durability=durability) as cluster:
        home = tmp_path / "clients"
        home.mkdir()
        events = await consumed(cluster, home, writes=writes)
        storing = [name for name in cluster.names if not name.startswith(("orderer", "sequencer"))]
    dumps = [dump_replica(OsDisk(), str(cluster.directory / name), name, engine) for name in storing]
    plan = Plan(dense=Feature.DENSE in registry.engine(engine).features)
    verdict = check([plan, *events, *dumps])
    assert not verdict.violations, verdict
    committed = {event.sub for event in events if isinstance(event, Commit) and event.st == "ok"}
    openings = [event for event in events if isinstance(event, Own)]
    assert {event.con for event in openings if event.sub in committed} == {"alone", "group"}
    assert {event.part for event in openings if event.con == "group"} == set(range(8))
    assert any(isinstance(event, Hand) for event in events)
    assert any(isinstance(event, Append) and event.key == OUT_KEY for event in events) == writes


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [4, 5])
@pytest.mark.parametrize("engine", ["scalog", "raft", "corfu", "belfast"])
def test_consumers_under_faults(tmp_path: Path, engine: EngineName, seed: int) -> None:
    """Members are killed, and paused for longer than their leases; with an even seed the group writes as well."""
    faults = "kill,pause,longpause,partition,consumer"
    arguments = ["--engine", engine, "--seconds", "60", "--seed", str(seed), "--faults", faults]
    (_, outcome), events = tortured(tmp_path, *arguments, timeout=500)
    assert outcome["verdict"] == "green"
    assert outcome["faults"]["consumer"] > 0
    assert sum(isinstance(event, Own) for event in events) > 50
    assert sum(isinstance(event, Commit) and event.st == "ok" for event in events) > 500
