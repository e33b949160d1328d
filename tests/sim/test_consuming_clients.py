"""Two simulated programs of one named consumer (`sim.clients.consumers`) once all is mended: one does not wait for the
other when that one has ended."""

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ithaca.model.interface.awaited import ClusterLog
from ithaca.sim.clients import consumers
from ithaca.sim.clients.consumers import Consuming, Ledger

WITHIN_S = 5


def world() -> Any:
    """As much of one as they ask for: it heals, producers have stopped, and ten records are acknowledged."""
    return SimpleNamespace(
        configuration=SimpleNamespace(engine="scalog", seed=1),
        recorder=SimpleNamespace(last_position=10),
        is_loaded=False,
        is_healing=True,
    )


def test_what_is_acknowledged_when_one_program_has_ended_the_other_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    healing, ledger = world(), Ledger(cast("Any", object()))
    first, second = (Consuming(healing, number, ledger) for number in range(2))

    async def connected(_: object) -> None:
        return None

    async def consume(self: Consuming, random: Random, log: ClusterLog) -> None:
        ledger.floor = healing.recorder.last_position + 1

    monkeypatch.setattr(consumers, "connected", connected)
    monkeypatch.setattr(consumers, "AGAIN_S", 0.0)
    monkeypatch.setattr(Consuming, "_consume", consume)

    async def both() -> None:
        await first.main(cast("Any", None), Random(0))
        assert ledger.floor == 11
        healing.recorder.last_position = 20  # an append that was under way
        await asyncio.wait_for(second.main(cast("Any", None), Random(0)), WITHIN_S)

    asyncio.run(both())
    assert ledger.floor == 21
    assert second.has_all
