"""Runs tests, or seeds, in a forked process with some modules changed.

The heavy libraries are imported before the fork, and nothing of the product is. Each run has a session of its own,
temporary directories of its own, and a mark in its environment by which everything that it left behind is found and
ended.
"""

import builtins
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tools.mutants.site import sitecustomize
from tools.mutants.sources import ROOT

HEAVY = (
    "asyncio", "hypothesis", "lz4.frame", "msgspec", "numpy", "prometheus_client", "pyarrow", "pytest_asyncio",
    "pytest_timeout", "typer", "uvloop", "xdist", "zstandard",
)  # fmt: skip
_MARK = "MUTANTS_RUN"
_ARGUMENTS = ["-q", "--no-header", "-p", "no:cacheprovider", "-m", "not campaign", "--tb", "line", "--assert", "plain"]
"""Plain assertions: pytest would else load the product itself, as it does with every plugin, to rewrite its own."""
_HUNG_S = 15.0
_SLOWER = 10
"""A test may take so many times longer than it did, and some seconds more, before it counts as hanging."""


@dataclass
class Ended:
    """How a run ended: status 0 when nothing was noticed, None when it took too long."""

    status: int | None
    seconds: float
    cpu_s: float
    said: dict[str, Any] = field(default_factory=dict)
    output: str = ""


def load_heavy() -> None:
    for name in HEAVY:
        importlib.import_module(name)
    assert not any(name.startswith("ithaca.") for name in sys.modules)


def allowed_s(usual_s: float, patience: float = 1.0) -> float:
    return patience * (_HUNG_S + _SLOWER * usual_s)


@contextmanager
def changed_modules() -> Iterator[Path]:
    """A directory for the code of changed modules."""
    directory = Path(tempfile.mkdtemp(prefix="ithaca-mutant-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def run(work: Callable[[dict[str, Any]], int], changed: Path, within_s: float) -> Ended:
    """Fork, do the work there with the changed modules, and end whatever it leaves behind."""
    own = Path(tempfile.mkdtemp(prefix="ithaca-run-"))
    started = time.monotonic()
    before = os.times()
    pid = os.fork()
    if pid == 0:
        os._exit(_inside(work, changed, own))
    status = _waited(pid, started + within_s)
    _end_all(pid, own.name)
    if status is None:
        os.waitpid(pid, 0)
    after = os.times()
    said = json.loads((own / "said").read_text()) if (own / "said").exists() else {}
    output = (own / "output").read_text(errors="replace") if (own / "output").exists() else ""
    shutil.rmtree(own, ignore_errors=True)
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return Ended(status, time.monotonic() - started, cpu_s, said, output)


def _inside(work: Callable[[dict[str, Any]], int], changed: Path, own: Path) -> int:
    """The forked process, to its end."""
    os.setsid()
    output = os.open(own / "output", os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(ROOT)
    site = str(Path(sitecustomize.__file__).parent)
    os.environ |= {
        _MARK: own.name,
        sitecustomize.CHANGED: str(changed),
        "PYTHONPATH": os.pathsep.join([site, str(ROOT / "src")]),
        "TMPDIR": str(own),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(own / "hypothesis"),
    }
    tempfile.tempdir = str(own)
    sys.path.insert(0, str(ROOT / "src"))
    said: dict[str, Any] = {}
    status = 99
    try:
        sitecustomize.install()
        status = work(said)
    except BaseException:
        traceback.print_exc()
    finally:
        (own / "said").write_text(json.dumps(said))
        sys.stdout.flush()
        os._exit(status)


def _waited(pid: int, until: float) -> int | None:
    pause_s = 0.005
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.2, 0.1)
    return None


def _end_all(pid: int, mark: str) -> None:
    """The process with its group, and all that carry its mark: servers may have groups of their own."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    wanted = f"{_MARK}={mark}".encode()
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with suppress(OSError):
                if wanted in (directory / "environ").read_bytes():
                    os.kill(int(directory.name), signal.SIGKILL)


class _Noticing:
    """Has tests run in the given order, each within its time, and ends with the first that fails."""

    def __init__(self, usual_s: dict[str, float], patience: float, said: dict[str, Any]) -> None:
        self._allowed_s = {name: allowed_s(seconds, patience) for name, seconds in usual_s.items()}
        self._rank = {name: at for at, name in enumerate(usual_s)}
        self._said = said

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._rank), key=lambda item: self._rank[item.nodeid]
        )
        for item in items:
            item.add_marker(pytest.mark.timeout(self._allowed_s[item.nodeid]), append=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._said |= {"by": report.nodeid, "why": _last_line(report.longreprtext)}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._said |= {"by": report.nodeid, "why": _last_line(report.longreprtext)}


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:300]


def run_tests(usual_s: dict[str, float], changed: Path, patience: float = 1.0) -> Ended:
    """These tests, in this order, until one fails; the times are what they usually take."""

    def work(said: dict[str, Any]) -> int:
        return int(pytest.main([*_ARGUMENTS, "-x", *usual_s], plugins=[_Noticing(usual_s, patience, said)]))

    return run(work, changed, 2 * _HUNG_S + allowed_s(sum(usual_s.values()), patience))


class _Recorder:
    """Keeps what each test hit, how long it took, and how it ended."""

    def __init__(self, said: dict[str, Any]) -> None:
        self._said = said
        self._tests: dict[str, Any] = said.setdefault("tests", {})

    def pytest_collection_finish(self) -> None:
        """What ran up to here did so while modules were imported."""
        self._said["imported"] = getattr(builtins, sitecustomize.HITS)[:].hex()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        hits = getattr(builtins, sitecustomize.HITS)
        hits[:] = bytes(len(hits))
        started = time.monotonic()
        result = yield
        test = self._tests.setdefault(item.nodeid, {})
        test["seconds"] = round(time.monotonic() - started, 3)
        test["hits"] = hits[:].hex()
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self._tests.setdefault(report.nodeid, {})
        test["outcome"] = report.outcome if test.get("outcome", "passed") == "passed" else test["outcome"]


def record_tests(file: str, changed: Path) -> Ended:
    """All tests of a file, with probes."""

    def work(said: dict[str, Any]) -> int:
        return int(pytest.main([*_ARGUMENTS, file], plugins=[_Recorder(said)]))

    return run(work, changed, 1800)


def run_seeds(usual_s: dict[int, float], changed: Path) -> Ended:
    """These seeds of the simulator until one is violated; a seed that takes too long ends the process."""

    def work(said: dict[str, Any]) -> int:
        hits = getattr(builtins, sitecustomize.HITS, None)
        if hits is not None:
            hits[:] = bytes(len(hits))
        from ithaca.sim.run import run_seed

        for seed, seconds in usual_s.items():
            signal.alarm(int(allowed_s(seconds)) + 1)
            started = time.monotonic()
            try:
                rule = run_seed(seed).rule
            except Exception as error:  # of the simulator or the checker, which the mutant has led astray
                rule = f"crashed: {error!r}"
            said[str(seed)] = {"seconds": round(time.monotonic() - started, 3), "rule": rule}
            if hits is not None:
                said[str(seed)]["hits"] = hits[:].hex()
            elif rule is not None:
                return 1
        signal.alarm(0)
        return 0

    return run(work, changed, 60 + allowed_s(sum(usual_s.values())))
