"""The client that speculates: what it writes down is judged, and a lie in it is found."""

import asyncio
from multiprocessing import Pipe
from pathlib import Path

import msgspec
import pytest
from tests.torture.test_torture import tortured

import ithaca.aio
from ithaca.proof.checker import check
from ithaca.proof.dump import dump_replica
from ithaca.proof.history import AnyEvent, Append, Confirm, Final, Plan, Spec, read_history
from ithaca.proof.payload import HEAD_BYTES, encode
from ithaca.storage.disk import OsDisk
from ithaca.testing import Cluster
from ithaca.torture.clients.client import Client, Errand, Finish
from ithaca.torture.clients.speculator import speculate

RECORDS = 60


async def speculated(cluster: Cluster, home: Path) -> list[AnyEvent]:
    """What a speculator says while records are appended, and what that is."""
    ours, theirs = Pipe()
    client = Client(theirs, Errand("speculator-1", 1, 0, cluster.bootstrap, home, 7, 1.0))
    task = asyncio.ensure_future(speculate(client))
    appended: list[AnyEvent] = []
    async with ithaca.aio.connect(cluster.bootstrap) as log:
        for number in range(RECORDS):
            receipt = await log.append(encode(7, number, HEAD_BYTES))
            appended.append(Append((7, number), 1, 0, 1 << 61, "ok", receipt.position))
        client.finish = Finish(await log.tail())
        await task
    client.close()
    ours.close()
    theirs.close()
    return [*appended, *read_history(client.errand.history())]


@pytest.mark.timeout(120)
async def test_what_a_speculator_says_is_complete_and_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ithaca.torture.clients.speculator.ANEW_S", 0.05)
    with Cluster(tmp_path / "cluster", engine="belfast", replicas=1, durability="os") as cluster:
        events = await speculated(cluster, tmp_path)
        storing = [name for name in cluster.names if not name.startswith("orderer")]
    finals: list[Final] = [dump_replica(OsDisk(), str(cluster.directory / name), name, "belfast") for name in storing]
    history = [Plan(dense=False), *events, *finals]
    verdict = check(history)
    assert not verdict.violations, verdict
    confirmed = {id_ for _, id_ in _confirmed(events)}
    assert confirmed == {(7, number) for number in range(RECORDS)}

    lost = next(event for event in events if isinstance(event, Spec))
    without = check([event for event in history if event is not lost])
    assert "confirmed-delivered" in {each.rule for each in without.violations}
    other = msgspec.structs.replace(lost, id=(7, RECORDS - 1))
    assert check([other if event is lost else event for event in history]).violations


def _confirmed(events: list[AnyEvent]) -> list[tuple[int, tuple[int, int]]]:
    """Position and id of each record that was delivered and then confirmed, by the same subscription."""
    confirms = [event for event in events if isinstance(event, Confirm)]
    specs = [event for event in events if isinstance(event, Spec)]
    return [
        (spec.pos, spec.id)
        for spec in specs
        if any(confirm.sub == spec.sub and confirm.lo <= spec.pos <= confirm.hi for confirm in confirms)
    ]


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [11, 12])
def test_speculators_under_faults(tmp_path: Path, seed: int) -> None:
    shape = ["--engine", "belfast", "--replicas", "3", "--masking"]
    arguments = [*shape, "--seconds", "60", "--seed", str(seed), "--faults", "kill,pause,killall"]
    (_, outcome), events = tortured(tmp_path, *arguments, timeout=500)
    assert outcome["verdict"] == "green"
    assert any(isinstance(event, Confirm) for event in events)
