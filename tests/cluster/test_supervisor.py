"""A supervisor and its children: restarts, ends, and that nobody is left behind."""

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

import pytest
from tests.cluster.supervising import (
    SLEEP,
    child_of,
    eventually,
    eventually_awaited,
    is_running,
    program,
    running_pids,
    state_of,
    supervisor_process,
)

from ithaca.cluster import supervisor as supervisor_module
from ithaca.cluster.limits import RESTART_FORGET_S, RESTART_PAUSE_S_MAX
from ithaca.cluster.log_files import log_path
from ithaca.cluster.state import ChildState
from ithaca.cluster.supervisor import RELOAD_SIGNAL, Program, Supervisor, _Child, describe_status
from ithaca.model.errors import NoSuchLog


def test_the_pause_doubles_up_to_a_bound_and_is_forgotten_after_a_good_run() -> None:
    child = _Child(program("ill", ""), ChildState("ill"))
    pauses = [child.pause_s(0.0) for _ in range(8)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, RESTART_PAUSE_S_MAX, RESTART_PAUSE_S_MAX]
    assert child.pause_s(RESTART_FORGET_S) == 0.1
    assert child.pause_s(0.0) == 0.2


def test_exit_statuses_in_words() -> None:
    assert describe_status(3) == "status 3"
    assert describe_status(-signal.SIGSEGV) == "killed by SIGSEGV"


async def test_a_child_that_dies_is_started_again_and_later_each_time(tmp_path: Path) -> None:
    told: list[str] = []
    supervisor = Supervisor(tmp_path, [program("ill", "raise SystemExit(7)")], told.append)
    running = asyncio.create_task(supervisor.run())
    await eventually_awaited(lambda: len(told) >= 3, "three restarts")
    assert told[:3] == [f"ill ended (status 7); it is started again in {pause} s" for pause in ("0.1", "0.2", "0.4")]
    assert child_of(tmp_path, "ill").restarts >= 3
    assert child_of(tmp_path, "ill").status == 7
    supervisor.ask_to_stop()
    await running
    assert child_of(tmp_path, "ill").phase == "stopped"


async def test_a_killed_child_comes_back_under_another_pid(tmp_path: Path) -> None:
    told: list[str] = []
    supervisor = Supervisor(tmp_path, [program("one", SLEEP), program("two", SLEEP)], told.append)
    running = asyncio.create_task(supervisor.run())
    log = log_path(tmp_path, "one")
    await eventually_awaited(lambda: log.exists() and log.read_text() == "ready\n", "it runs")
    first = child_of(tmp_path, "one").pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await eventually_awaited(lambda: log.read_text() == "ready\nready\n", "it runs again, and logs after the first")
    second = child_of(tmp_path, "one")
    assert told == ["one ended (killed by SIGKILL); it is started again in 0.1 s"]
    assert (second.phase, second.restarts, second.status) == ("running", 1, -signal.SIGKILL)
    assert second.pid != first
    assert child_of(tmp_path, "two").restarts == 0
    supervisor.ask_to_stop()
    await running
    assert not is_running(second.pid or 0)


async def test_a_fenced_child_stays_down_and_the_others_go_on(tmp_path: Path) -> None:
    told: list[str] = []
    programs = [program("fenced", "raise SystemExit(3)"), program("well", SLEEP)]
    supervisor = Supervisor(tmp_path, programs, told.append)
    running = asyncio.create_task(supervisor.run())
    await eventually_awaited(lambda: bool(told), "it is told")
    assert told[0].startswith("fenced has fenced itself")
    await eventually_awaited(lambda: child_of(tmp_path, "well").phase == "running", "the other runs")
    assert not running.done()
    supervisor.ask_to_stop()
    await running
    assert (child_of(tmp_path, "fenced").phase, child_of(tmp_path, "fenced").restarts) == ("fenced", 0)
    assert len(told) == 1


async def test_a_program_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    told: list[str] = []
    supervisor = Supervisor(tmp_path, [Program("absent", [str(tmp_path / "no such program")])], told.append)
    running = asyncio.create_task(supervisor.run())
    await eventually_awaited(lambda: len(told) >= 4, "two tries")
    assert "absent cannot be started: " in told[0]
    assert "No such file" in told[0]
    assert told[1] == "absent ended (status 1); it is started again in 0.1 s"
    supervisor.ask_to_stop()
    await running


async def test_a_child_that_will_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "SERVER_STOP_TIMEOUT_S", 0.2)
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
    supervisor = Supervisor(tmp_path, [program("stubborn", stubborn)], print)
    running = asyncio.create_task(supervisor.run())
    log = log_path(tmp_path, "stubborn")
    await eventually_awaited(lambda: log.exists() and "ready" in log.read_text(), "it ignores SIGTERM by now")
    supervisor.ask_to_stop()
    await running
    assert child_of(tmp_path, "stubborn").status == -signal.SIGKILL


async def test_programs_that_are_new_are_started_on_a_signal(tmp_path: Path) -> None:
    told: list[str] = []
    wanted: list[Program] = [program("one", SLEEP)]

    def reread() -> list[Program]:
        if not wanted:
            raise NoSuchLog("the file is gone")
        return wanted

    supervisor = Supervisor(tmp_path, list(wanted), told.append, reread=reread)
    running = asyncio.create_task(supervisor.run())
    await eventually_awaited(lambda: (tmp_path / "supervisor.json").exists(), "it runs")
    wanted.append(program("two", SLEEP))
    os.kill(os.getpid(), RELOAD_SIGNAL)
    await eventually_awaited(lambda: len(state_of(tmp_path).children) == 2, "the other one runs, too")
    await eventually_awaited(lambda: child_of(tmp_path, "two").phase == "running", "the other one runs, too")
    assert [child.restarts for child in state_of(tmp_path).children] == [0, 0]
    wanted.clear()
    os.kill(os.getpid(), RELOAD_SIGNAL)
    await eventually_awaited(lambda: any("the file is gone" in text for text in told), "it says so, and goes on")
    supervisor.ask_to_stop()
    await running
    assert [child.phase for child in state_of(tmp_path).children] == ["stopped", "stopped"]


async def test_programs_that_are_not_wanted_any_more_are_stopped_and_forgotten(tmp_path: Path) -> None:
    fenced = "import sys; sys.exit(3)"
    wanted = [program("one", SLEEP), program("two", SLEEP), program("three", fenced)]
    supervisor = Supervisor(tmp_path, list(wanted), print, reread=lambda: wanted)
    running = asyncio.create_task(supervisor.run())
    await eventually_awaited(lambda: (tmp_path / "supervisor.json").exists(), "it runs")
    await eventually_awaited(lambda: child_of(tmp_path, "two").phase == "running", "all run")
    await eventually_awaited(lambda: child_of(tmp_path, "three").phase == "fenced", "one has fenced itself")
    pid = child_of(tmp_path, "two").pid
    assert pid is not None
    del wanted[1:]
    os.kill(os.getpid(), RELOAD_SIGNAL)
    await eventually_awaited(lambda: [each.name for each in state_of(tmp_path).children] == ["one"], "two are gone")
    await eventually_awaited(lambda: not is_running(pid), "its process has ended")
    supervisor.ask_to_stop()
    await running


async def test_asking_twice_kills_at_once(tmp_path: Path) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
    supervisor = Supervisor(tmp_path, [program("stubborn", stubborn)], print)
    running = asyncio.create_task(supervisor.run())
    log = log_path(tmp_path, "stubborn")
    await eventually_awaited(lambda: log.exists() and "ready" in log.read_text(), "it ignores SIGTERM by now")
    supervisor.ask_to_stop()
    supervisor.ask_to_stop()
    await running
    assert child_of(tmp_path, "stubborn").status == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_everything(tmp_path: Path, number: signal.Signals) -> None:
    with supervisor_process(tmp_path) as process:
        pids = running_pids(tmp_path, 2)
        assert state_of(tmp_path).pid == process.pid
        process.send_signal(number)
        assert process.wait(timeout=60) == 0
    assert not any(map(is_running, pids))
    assert {child.phase for child in state_of(tmp_path).children} == {"stopped"}
    assert {child.pid for child in state_of(tmp_path).children} == {None}


def test_children_do_not_outlive_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with supervisor_process(tmp_path) as process:
        pids = running_pids(tmp_path, 2)
        for name in ("one", "two"):
            eventually(partial(_is_ready, log_path(tmp_path, name)), "it has asked the kernel")
        process.kill()
        process.wait(timeout=60)
        eventually(lambda: not any(map(is_running, pids)), "both are gone")


def _is_ready(log: Path) -> bool:
    return "ready" in log.read_text()


def test_a_child_whose_supervisor_died_before_it_could_ask_ends_itself(tmp_path: Path) -> None:
    """Killed as soon as the children exist: they are still loading, and find another parent when they look."""
    with supervisor_process(tmp_path) as process:
        pids = running_pids(tmp_path, 2)
        process.kill()
        process.wait(timeout=60)
        eventually(lambda: not any(map(is_running, pids)), "both are gone")
