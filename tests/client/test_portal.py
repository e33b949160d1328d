"""The loop thread: what is run there comes back here, and it neither outlives the process nor holds it up."""

import asyncio
import gc
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from ithaca.client import portal as portals
from ithaca.client.portal import Portal, portal
from ithaca.model.errors import InvalidInput, LogClosed, NotWritten

PATIENCE_S = 60


async def ident() -> int:
    return threading.get_ident()


def test_there_is_one_portal_however_many_threads_ask() -> None:
    barrier = threading.Barrier(8)

    def ask(_: int) -> int:
        barrier.wait()
        return portal().run(ident)

    with ThreadPoolExecutor(8) as pool:
        idents = set(pool.map(ask, range(8)))
    assert len(idents) == 1
    assert threading.get_ident() not in idents


def test_what_a_coroutine_raises_is_raised_here_with_where_it_happened() -> None:
    async def fail_on_the_loop() -> None:
        raise NotWritten("not yet", tail=7)

    with pytest.raises(NotWritten) as caught:
        portal().run(fail_on_the_loop)
    assert caught.value.tail == 7
    assert caught.traceback[-1].name == "fail_on_the_loop"


def test_a_time_out_of_the_coroutines_own_passes_through() -> None:
    async def time_out() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        portal().run(time_out)


def test_waiting_on_the_loop_for_the_loop_is_refused() -> None:
    def wait_for_itself() -> int:
        return portal().run(ident)

    with pytest.raises(InvalidInput, match="callback"):
        portal().call(wait_for_itself)


def test_the_users_loops_stay_stock() -> None:
    async def kind() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert portal().run(kind).startswith("uvloop")
    assert asyncio.run(kind()).startswith("asyncio")


def test_the_end_cancels_what_is_under_way_and_refuses_what_comes() -> None:
    own = Portal()
    started, cancelled = threading.Event(), threading.Event()

    async def wait_for_ever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    waiting = threading.Thread(target=lambda: own.run(wait_for_ever), daemon=True)
    waiting.start()
    assert started.wait(PATIENCE_S)
    own.end()
    assert cancelled.is_set()
    assert waiting.is_alive()  # only daemons can wait while a process ends, and they end with it
    assert own.loop.is_closed()
    with pytest.raises(LogClosed, match="ending"):
        own.run(ident)
    own.end()


def test_a_callback_that_holds_the_loop_up_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portals, "PORTAL_END_S", 0.01)
    own = Portal()
    held, go_on = threading.Event(), threading.Event()

    def hold_up() -> None:
        held.set()
        go_on.wait()

    own.loop.call_soon_threadsafe(hold_up)
    assert held.wait(PATIENCE_S)
    own.end()
    assert not own.loop.is_closed()
    go_on.set()
    monkeypatch.setattr(portals, "PORTAL_END_S", PATIENCE_S)
    own.end()
    assert own.loop.is_closed()


def test_a_child_keeps_the_portal_of_its_parent_which_still_runs_there() -> None:
    """A loop that runs must not be collected, and in a child it never stops running."""
    inherited = weakref.ref(portal())
    child = os.fork()
    if child == 0:
        gc.collect()
        os._exit(0 if inherited() is not None and portal() is not inherited() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
