"""Stores on simulated clusters under faults: some order explains what their clients saw, on every engine."""

import pytest
from tests.objects.linearizable import explained
from tests.objects.simulated_stores import KEYS, stores_of
from tests.shipped import ENGINES

from ithaca.model.engine import EngineName


def judge(seed: int, engine: EngineName, monkeypatch: pytest.MonkeyPatch) -> None:
    history, counts = stores_of(seed, engine, monkeypatch)
    known = [each for each in history if each.result is not None]
    assert len(known) > len(history) / 3, f"too little is known to judge: {counts}"
    assert explained(history, KEYS), f"no order explains seed {seed} of {engine}: {history}"


@pytest.mark.parametrize("engine", ENGINES)
def test_stores_are_linearizable_under_faults(engine: EngineName, monkeypatch: pytest.MonkeyPatch) -> None:
    judge(3, engine, monkeypatch)


@pytest.mark.parametrize(("seed", "engine"), [(24, "belfast"), (77, "belfast"), (76, "scalog")])
def test_seeds_that_once_failed(seed: int, engine: EngineName, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 76 of scalog replicas that were let in without a lane asked all orderers again, and were silent meanwhile: so
    the lanes that others had just got were closed, and so on for ever."""
    judge(seed, engine, monkeypatch)


def test_reads_of_the_past_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    history, _ = stores_of(2, "raft", monkeypatch, is_stale=True)
    assert not explained(history, KEYS)


@pytest.mark.campaign
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(100))
def test_stores_are_linearizable_whatever_the_seed(
    seed: int, engine: EngineName, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(seed, engine, monkeypatch)
