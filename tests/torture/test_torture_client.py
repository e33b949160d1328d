"""A client of the torturer whose run does not listen: it goes on, and says at its end how much was done."""

import multiprocessing
import os
from pathlib import Path

import pytest

from ithaca.torture.clients import client as clients
from ithaca.torture.clients.client import Client, Errand, Progress


def test_progress_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "TELL_S", -1.0)
    ours, theirs = multiprocessing.Pipe()
    os.set_blocking(theirs.fileno(), False)
    client = Client(theirs, Errand("reader-1", 1, 0, "127.0.0.1:1", tmp_path, 7, 1.0))
    for _ in range(20_000):
        client.count(1)
    heard = 0
    while ours.poll():
        told = ours.recv()
        assert isinstance(told, Progress)
        assert told.records > heard
        heard = told.records
    assert 0 < heard < 20_000
    client.close()
    assert ours.recv() == Progress(20_000)
