"""Runs as a naive list, and what the tests of runs compare with it."""

from random import Random

import numpy as np

from ithaca.engines.scalog.storage.runs import Runs
from ithaca.engines.scalog.storage.runs_format import Run
from ithaca.sim.disk import SimDisk
from ithaca.storage.disk import Disk

PAGE = 4
FILE = "/lane/runs"
NEVER = 1 << 60


def opened(disk: Disk, directory: str = "/lane") -> Runs:
    return Runs(disk, directory, page_entries=PAGE, pages_cached_max=2)


def new_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/lane")
    disk.sync_directory("/")
    return disk


class NaiveRuns:
    """The position and time of every LSN, one by one."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.times: list[int] = []
        self.skips: list[int] = []
        """LSNs before which nothing is known."""

    def append(self, run: Run) -> None:
        assert run.lsn == len(self.positions)
        self.positions += range(run.position, run.position + run.count)
        self.times += [run.time_us] * run.count

    def truncated(self, length: int) -> "NaiveRuns":
        model = NaiveRuns()
        model.positions, model.times = self.positions[:length], self.times[:length]
        model.skips = [lsn for lsn in self.skips if lsn <= length]
        return model

    def skip(self, count: int) -> int:
        """The LSN at which the runs go on."""
        self.positions += self.positions[-1:] * count or [1] * count
        self.times += self.times[-1:] * count or [100] * count
        self.skips.append(len(self.positions))
        return len(self.positions)

    def next(self, gap: int, count: int, later_us: int) -> Run:
        position = self.positions[-1] + 1 if self.positions else 1
        return Run(len(self.positions), position + gap, count, (self.times[-1] if self.times else 100) + later_us)


def check(found: Runs, model: NaiveRuns) -> None:
    """Every look-up agrees with the model on everything that was not trimmed."""
    first, end = found.first_lsn, len(model.positions)
    assert found.end_lsn == end
    assert first >= max(model.skips, default=0)
    lsns = np.arange(first, end)
    assert found.positions_of(lsns).tolist() == model.positions[first:]
    shuffled = np.random.default_rng(1).permutation(lsns)
    assert found.positions_of(shuffled).tolist() == [model.positions[lsn] for lsn in shuffled]
    listed = list(found.runs(0, end))
    assert [run.lsn for run in listed[:1]] == [first][: end - first]
    flat = [(run.position + at, run.time_us) for run in listed for at in range(run.count)]
    assert flat == list(zip(model.positions[first:], model.times[first:], strict=True))
    if first == end:
        return
    known = {model.positions[lsn]: lsn for lsn in range(first, end)}
    for position in range(model.positions[first], model.positions[-1] + 3):
        assert found.lsn_of(position) == known.get(position)
        at_or_behind = next((lsn for lsn in range(first, end) if model.positions[lsn] >= position), end)
        assert found.floor_position(position) == at_or_behind
    for time_us in range(model.times[first] - 1, model.times[-1] + 2):
        assert found.seek_time(time_us) == next((lsn for lsn in range(first, end) if model.times[lsn] >= time_us), end)
    for lsn in (first, (first + end) // 2, end - 1):
        assert found.position_of(lsn) == model.positions[lsn]


def fill(found: Runs, model: NaiveRuns, random: Random, count: int) -> None:
    for _ in range(count):
        run = model.next(random.randint(0, 2), random.randint(1, 3), random.randint(0, 2))
        found.append(run)
        model.append(run)
