"""Many seeds on all cores, and what they came across together."""

import multiprocessing
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice

from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.sim.engine import simulated
from ithaca.sim.run import Result, run_seed

SEEDS_PER_WORKER = 100
"""Then another process takes over. Iterations that nobody closed hold up to 20 MB of their world for each seed, which
ends with the process."""


def run_seeds(
    seeds: Iterable[int], workers: int | None = None, *, engine: EngineName = DEFAULT_ENGINE, story: bool = False
) -> Iterator[Result]:
    """The results of the seeds, as they come in; `story` has the story also told when nothing was violated."""
    count = workers or os.cpu_count() or 1
    if count == 1:
        for seed in seeds:
            yield run_seed(seed, engine, story=story)
        return
    left = iter(seeds)
    while some := list(islice(left, count * SEEDS_PER_WORKER)):
        yield from _run_some(some, count, engine, story)


def _run_some(seeds: list[int], workers: int, engine: EngineName, story: bool) -> Iterator[Result]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_end_with_parent) as pool:
        futures = [pool.submit(run_seed, seed, engine, story=story) for seed in seeds]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Have this worker end when the command does, however that ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="ithaca-parent", daemon=True).start()


class Coverage:
    """How often each fault befell something, and each named path was taken."""

    def __init__(self, engine: EngineName = DEFAULT_ENGINE) -> None:
        self.counts: Counter[str] = Counter()
        added = simulated(engine)
        self._expected = [*(f"fault {kind}" for kind in added.faults), *(f"path {name}" for name in added.paths)]

    def add(self, result: Result) -> None:
        self.counts.update(result.counts)

    def rows(self) -> list[tuple[str, int]]:
        """All that there is to come across, those included that did not come up."""
        others = sorted(name for name in self.counts if name not in self._expected)
        return [(name, self.counts[name]) for name in [*self._expected, *others]]

    def missing(self) -> list[str]:
        """Faults and paths that never came up."""
        return [name for name in self._expected if not self.counts[name]]
