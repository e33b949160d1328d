"""Ctrl-C while a process is being started is heeded once it is, so that nobody gets half of what it is to do."""

import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import pytest

from ithaca.apps.demo_cast import Cast, is_running


def say_hello(parent: Connection) -> None:
    parent.send("hello")
    time.sleep(60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_midst_of_a_start(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []
    before = signal.signal(number, lambda number, frame: heard.append(number))
    started: list[SpawnProcess] = []
    original: Callable[[SpawnProcess], None] = SpawnProcess.start

    def start(process: SpawnProcess) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})  # as if a thread that does not block it took it
        os.kill(os.getpid(), number)
        original(process)
        started.append(process)
        assert heard == []

    monkeypatch.setattr(SpawnProcess, "start", start)
    try:
        with Cast() as cast:
            cast.start("greeter", say_hello)
            assert heard == [number]
            assert next(cast.messages()) == ("greeter", "hello")
    finally:
        signal.signal(number, before)
    assert not is_running(started[0].pid or 0)
