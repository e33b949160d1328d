"""`ithaca bench backup`: what appends lose while `ithaca backup` runs.

The log is filled, and then one backup of all of it is made, by the command in a process of its own. It is stopped and
let go on in turns (SIGSTOP, SIGCONT), so that appends are measured without it and with it, one after the other, for as
long as it lasts.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ithaca
from ithaca.bench.bare import values_of
from ithaca.bench.cluster.append import spread
from ithaca.bench.cluster.producers import Plan, producers
from ithaca.bench.cluster.target import measured_cluster
from ithaca.bench.embedded import EmbeddedSettings, measure_appends
from ithaca.bench.measure import Progress, Sample, ratios, summarize
from ithaca.bench.place import surroundings, workspace
from ithaca.bench.restoring import run_restore
from ithaca.cluster.temporary import Shape
from ithaca.model.errors import InvalidInput, Unavailable
from ithaca.model.interface import Log
from ithaca.model.limits import MIB

ALONE, BESIDE = "alone", "while a backup runs"
SETTLE_S = 0.3
"""For what a backup that was stopped still has in the disk's queue."""
START_S = 1.0
"""For the command to start before it is measured."""
END_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """`cluster` is the bootstrap address of one that runs already, the shape of one to be started, or None for the log
    of a directory. There are at most so many rounds, and fewer if the backup is done before."""

    cluster: str | Shape | None
    bytes: int = 2 << 30
    record_bytes: int = 4096
    batch: int = 64
    window: int = 4
    seconds: float = 2.0
    rounds: int = 20
    pace: int | None = None
    yields: bool = True
    restore: bool = False
    """Whether the backup is restored into a new log of the same shape, and compared with this one."""


@dataclass(frozen=True, slots=True)
class Load:
    """A log: how the command line names it, how it is filled, and a turn of appends."""

    target: tuple[str, str]
    fill: Callable[[], object]
    measure: Callable[[], Sample]
    log: Log
    """To read it."""


def run_backup(parent: Path, settings: BackupSettings, progress: Progress) -> dict[str, Any]:
    """Everything the settings ask for, as one JSON-ready report."""
    with workspace(parent) as directory:
        setting = asdict(settings) | surroundings(directory)
        with _load(directory, settings, progress) as load:
            progress("filling the log")
            load.fill()
            load.measure()
            with Backup(load.target, directory / "backup", settings) as backup:
                samples = _in_turns(load, backup, settings, progress)
                progress("waiting for the backup to end")
                seconds, kept_bytes = backup.seconds, backup.end()
            restored = _restored(directory, load, settings, progress)
    contenders = {name: summarize(of_one) for name, of_one in samples.items()}
    share = ratios(samples[BESIDE], samples[ALONE])
    contenders[BESIDE]["ratios"] = {"to": ALONE, **share}
    kept = {"bytes": kept_bytes, "bytes_per_s_beside": round(backup.taken_bytes / seconds, 1)}
    report = {"bench": "backup", "contenders": contenders, "compared": {BESIDE: {ALONE: share}}}
    return report | {"backup": kept} | restored | {"settings": setting}


def _restored(directory: Path, load: Load, settings: BackupSettings, progress: Progress) -> dict[str, Any]:
    if not settings.restore:
        return {}
    assert not isinstance(settings.cluster, str), "a running cluster has no shape of its own"
    return {"restore": run_restore(directory, load.log, settings.cluster, progress)}


@contextmanager
def _load(directory: Path, settings: BackupSettings, progress: Progress) -> Iterator[Load]:
    if settings.cluster is None:
        with ithaca.open(directory / "log") as log:
            values = values_of(settings.record_bytes, max(1, MIB // settings.record_bytes))
            each = len(values[0]) * settings.record_bytes

            def fill() -> None:
                for turn in range(-(-settings.bytes // each)):
                    log.append_many(values[turn % len(values)])

            appending = EmbeddedSettings(
                settings.record_bytes, settings.batch, settings.seconds, window=settings.window
            )
            turns = values_of(settings.record_bytes, settings.batch)
            yield Load(("-p", str(directory / "log")), fill, lambda: measure_appends(log, turns, appending), log)
        return
    plan = Plan(settings.record_bytes, settings.batch, settings.window)
    with (
        measured_cluster(directory / "cluster", settings.cluster, progress) as run,
        producers(run.bootstrap, spread(run, len(run.shards)), plan, run.tls) as team,
        ithaca.connect(run.bootstrap, tls=run.tls, token=run.token) as log,
    ):
        yield Load(
            ("-b", run.bootstrap),
            lambda: team.fill(settings.bytes, wide=True),
            lambda: team.measure(settings.seconds),
            log,
        )


def _in_turns(load: Load, backup: "Backup", settings: BackupSettings, progress: Progress) -> dict[str, list[Sample]]:
    """Rounds until the backup is done; the one in which it ended is not counted."""
    samples: dict[str, list[Sample]] = {ALONE: [], BESIDE: []}
    for turn in range(settings.rounds):
        progress(f"round {turn + 1} of {settings.rounds} at most")
        measured: dict[str, Sample] = {}
        for name in (BESIDE, ALONE) if turn % 2 else (ALONE, BESIDE):
            with backup.running() if name is BESIDE else backup.stopped():
                measured[name] = load.measure()
        if backup.is_done:
            break
        for name, sample in measured.items():
            samples[name].append(sample)
    if not samples[BESIDE]:
        raise InvalidInput(f"the backup was done within {settings.seconds:g} s: give more --bytes, or less --seconds")
    return samples


class Backup:
    """The command: begun, and stopped except in its turns."""

    def __init__(self, target: tuple[str, str], to: Path, settings: BackupSettings) -> None:
        self._to = to
        self._command = [sys.executable, "-m", "ithaca", "backup", *target, "--to", str(to), "--json"]
        self._command += [] if settings.pace is None else ["--pace", str(settings.pace)]
        self._command += [] if settings.yields else ["--no-yield"]
        self.seconds = 0.0
        self.taken_bytes = 0
        """In its turns."""

    def __enter__(self) -> "Backup":
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        time.sleep(START_S)
        self._process.send_signal(signal.SIGSTOP)
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def is_done(self) -> bool:
        return self._process.poll() is not None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        time.sleep(SETTLE_S)
        yield

    @contextmanager
    def running(self) -> Iterator[None]:
        before, began_s = self._kept_bytes(), time.monotonic()
        self._process.send_signal(signal.SIGCONT)
        yield
        self._process.send_signal(signal.SIGSTOP)
        self.seconds += time.monotonic() - began_s
        self.taken_bytes += self._kept_bytes() - before

    def end(self) -> int:
        """Let it finish; how many bytes it kept in all."""
        self._process.send_signal(signal.SIGCONT)
        self._process.communicate(timeout=END_TIMEOUT_S)
        if self._process.returncode:
            raise Unavailable(f"ithaca backup ended with status {self._process.returncode}")
        return self._kept_bytes()

    def _kept_bytes(self) -> int:
        return sum(each.stat().st_size for each in self._to.glob("*")) if self._to.exists() else 0
