"""`ithaca demo speculation`: the three applications on a cluster of belfast, one after the other.

In the middle of the records all servers of a shard are killed, and a task is ended and goes on from its database. What
the tasks have told at the end is what plain Python has.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import ithaca
import ithaca.speculation
from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.demo_display import Display
from ithaca.apps.demo_home import demo_home
from ithaca.apps.pipelines.claims import Claims
from ithaca.apps.pipelines.events import read_all
from ithaca.apps.pipelines.feed import Feed
from ithaca.apps.speculative.rules import APPLICATIONS, Application
from ithaca.cluster.temporary import Shape, TemporaryCluster, temporary_cluster
from ithaca.model.config.failures import FailurePolicy
from ithaca.model.engine import EngineName
from ithaca.model.errors import IthacaError, LogClosed
from ithaca.model.records import KeyFilter

SHAPE: Final = Shape(shards=2, replicas=2, orderers=1, failures=FailurePolicy("none", 500))
BATCH_RECORDS: Final = 20
WAIT_S: Final = 120.0
Figures = list[tuple[str, str]]


def run_speculation_demo(records: int, seed: int, directory: Path | None, keep: bool, engine: EngineName) -> bool:
    """Run all three; True when every claim held."""
    display = Display({})
    with demo_home(directory, keep) as home:
        started = time.perf_counter()
        figures: Figures = []
        try:
            for name, application in APPLICATIONS.items():
                figures += _run(name, application, home / name, display, seed, records, engine)
        except (DemoFailed, IthacaError) as failure:
            display.say(f"FAILED: {failure}")
            return False
        display.table("every claim held", [*figures, ("all of it took", f"{time.perf_counter() - started:.1f} s")])
        if keep:
            display.say(f"the results are kept; look at them with: sqlite3 {home}/*/*.sqlite")
    return True


def _run(
    name: str, application: Application, home: Path, display: Display, seed: int, records: int, engine: EngineName
) -> Figures:
    home.mkdir()
    display.say(
        f"{name}: {application.sources} sources append {records:,} records, {len(application.shares)} tasks follow"
    )
    with temporary_cluster(home / "cluster", replace(SHAPE, engine=engine), lambda text: None) as cluster:
        sources = {each: application.events(seed, each, records) for each in range(application.sources)}
        with (
            _tasks(application, cluster.bootstrap, home) as tasks,
            Feed(cluster.bootstrap, sources, BATCH_RECORDS, hold_at=records // 2) as feed,
        ):
            feed.wait_for(records // 2)
            display.say("   the servers of shard 0 are killed, and one of the tasks ends and begins again")
            kill_shard(cluster, 0)
            tasks[0].begin_again()
            feed.go_on()
            feed.finish()
            with ithaca.connect(cluster.bootstrap) as log:
                held = list(read_all(log))
            for task in tasks:
                task.begin_again(held[-1].position + 1)
                task.finish()
    claims = Claims(display.say)
    claims.log_holds(held, {each: application.events(seed, each, records) for each in range(application.sources)})
    found = sorted((alert for task in tasks for alert in task.alerts), key=lambda alert: alert[0])
    claims.same("the alerts of speculative tasks are those of plain Python", found, application.plain(held))
    return [
        (f"{name}: alerts", f"{len(found):,}"),
        (f"{name}: records that were taken back", f"{sum(task.undone for task in tasks):,}"),
    ]


def kill_shard(cluster: TemporaryCluster, shard: int) -> None:
    """End all its servers as `kill -9` does; the supervisor starts them again."""
    for child in cluster.state().children:
        if child.name.startswith(f"shard-{shard}-") and child.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)


class TaskThread:
    """One task on a thread of its own: it follows until it is ended, and goes on from its database."""

    def __init__(self, application: Application, bootstrap: str, path: Path, where: KeyFilter | None) -> None:
        self._application = application
        self._bootstrap = bootstrap
        self._path = path
        self._where = where
        self._failure: BaseException | None = None
        self.undone = 0
        self.alerts: list[tuple[Any, ...]] = []
        self._begin(None)

    def begin_again(self, stop: int | None = None) -> None:
        """End it where it is, and go on from its database, up to `stop` if that is given."""
        self.end()
        self._begin(stop)

    def finish(self) -> None:
        """Wait until it comes to its end by itself."""
        self._thread.join(WAIT_S)
        if self._thread.is_alive():
            raise DemoFailed(f"a task did not come to its end within {WAIT_S:.0f} s")
        if self._failure is not None:
            raise DemoFailed(f"a task failed: {self._failure}") from self._failure

    def end(self) -> None:
        """Close its handle, wherever it is: it takes back what it has not published."""
        self._log.close()
        self._thread.join(WAIT_S)

    def _begin(self, stop: int | None) -> None:
        self._log = ithaca.connect(self._bootstrap)
        self._thread = threading.Thread(target=self._run, args=(stop,), daemon=True)
        self._thread.start()

    def _run(self, stop: int | None) -> None:
        desk = self._application.open_desk(self._path)
        try:
            with suppress(LogClosed):
                ithaca.speculation.run(
                    self._log, desk.apply, desk.undo, desk.publish, start=desk.position, stop=stop, where=self._where
                )
        except Exception as error:
            self._failure = error
        finally:
            self.undone += desk.undone
            self.alerts = desk.alerts()
            desk.close()


@contextmanager
def _tasks(application: Application, bootstrap: str, home: Path) -> Iterator[list[TaskThread]]:
    """Tasks that have the keys between them."""
    with ExitStack() as stack:
        tasks: list[TaskThread] = []
        for number, where in enumerate(application.shares):
            tasks.append(TaskThread(application, bootstrap, home / f"task-{number}.sqlite", where))
            stack.callback(tasks[-1].end)
        yield tasks
