"""What came of a run: the judgement, the figures, and what is kept of it."""

import asyncio
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import msgspec
import uvloop
from msgspec.structs import replace

from ithaca.model.errors import Corrupt, IthacaError
from ithaca.proof.checker import check_file
from ithaca.proof.dump import dump_replica
from ithaca.proof.history import HistoryWriter, merge
from ithaca.storage.disk import OsDisk
from ithaca.torture.cluster_under_test import NotHealed
from ithaca.torture.crowd import ClientFailed
from ithaca.torture.disks import private_mounts
from ithaca.torture.faults.injectors import Broken, NotFired
from ithaca.torture.run import Options, Progress, Run, Tell

HISTORY = "history.jsonl"
DUMPS = "dumps.jsonl"

Judgement = Literal["green", "red", "none"]
"""Every promise held; one did not; nothing was proved."""


class Outcome(msgspec.Struct, frozen=True):
    """The end of a run."""

    verdict: Judgement
    acknowledged: int
    """Records."""
    faults: dict[str, int]
    """How often each fired."""
    violations: list[str]
    reason: str | None
    """Why there is no verdict."""
    events: dict[str, int]
    """Lines of the history, by kind."""
    seed: int = 0
    seconds: float = 0.0
    """That the whole run took, with its beginning and its end."""
    history: str | None = None
    """Where the history is kept, if it is."""
    kept: str | None = None
    """Where the rest is kept: logs, clients' histories, the servers' data."""


def torture(
    options: Options, *, directory: Path | None, history: Path | None, tell: Tell, progress: Progress
) -> Outcome:
    """Do a run and judge it. What it needs is in a directory of its own, and kept only if something is wrong."""
    begun_s = time.monotonic()
    with ExitStack() as stack:
        home = stack.enter_context(_made_home(directory))
        if options.needs_disks:
            private_mounts()
        run = Run(home.path, options, tell, progress)
        for disk in run.disks.values():
            stack.callback(disk.remove)
            disk.make()
        failure = _went(run)
        tell("judging")
        dumps = home.path / DUMPS
        if failure is None:
            failure = _dumped(run, dumps)
        target = history or home.path / HISTORY
        merge([*run.histories(ended_early=failure is not None), *([dumps] if failure is None else [])], target)
        outcome = _judged(target, run, failure)
        outcome = replace(outcome, seed=options.seed, seconds=round(time.monotonic() - begun_s, 1))
        if outcome.verdict == "green":
            return replace(outcome, history=None if history is None else str(history))
        home.keep(run)
        return replace(outcome, history=str(target), kept=str(home.path))


def _went(run: Run) -> Exception | None:
    """What ended the run before its time."""
    try:
        uvloop.run(run.go())
    except (NotFired, Broken, ClientFailed, NotHealed) as failure:
        return failure
    except (IthacaError, ValueError) as error:
        return ClientFailed(f"the run's own client: {type(error).__name__}: {error}")
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None
    return None


def _dumped(run: Run, target: Path) -> Exception | None:
    """Write down what the replicas hold; damage that was found in one."""
    with HistoryWriter(target) as writer:
        for name, directory in run.replicas.items():
            try:
                writer.write(dump_replica(OsDisk(), str(directory), name, run.engine))
            except Corrupt as damage:
                return damage
    return None


def _judged(history: Path, run: Run, failure: Exception | None) -> Outcome:
    verdict = check_file(history)
    violations = [str(violation) for violation in verdict.violations]
    if failure is not None and not isinstance(failure, NotFired):
        violations.insert(0, str(failure))
    reason = str(failure) if isinstance(failure, NotFired) else verdict.no_verdict
    return Outcome(
        verdict="red" if violations else "none" if reason else "green",
        acknowledged=run.crowd.acknowledged,
        faults=dict(run.fired),
        violations=violations,
        reason=reason,
        events=verdict.events,
    )


class _Home:
    """The directory of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_kept = False

    def keep(self, run: Run) -> None:
        """Have it stay; what is on disks that are about to go is copied."""
        self.is_kept = True
        for name, disk in run.disks.items():
            if disk.server.is_dir():
                shutil.copytree(disk.server, self.path / "kept" / name)


@contextmanager
def _made_home(directory: Path | None) -> Iterator[_Home]:
    """A fresh directory, under `directory` or where temporary ones go; removed afterwards unless it is kept."""
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    home = _Home(Path(tempfile.mkdtemp(prefix="ithaca-torture-", dir=directory)).absolute())
    try:
        yield home
    except Exception as error:  # a bug of ours: whoever looks for it needs what there is
        home.is_kept = True
        error.add_note(f"everything is kept in {home.path}")
        raise
    finally:
        if not home.is_kept:
            shutil.rmtree(home.path, ignore_errors=True)
