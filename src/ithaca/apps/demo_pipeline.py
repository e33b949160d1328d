"""`ithaca demo`: payments into a cluster, Spark behind them with alerts, shards replaced, analytics, a picture."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from ithaca.apps.demo_cast import Cast, DemoFailed, Ready, is_running
from ithaca.apps.demo_home import demo_home
from ithaca.apps.demo_pipeline_plot import Picture, check_can_plot, draw
from ithaca.apps.demo_pipeline_processes import Appended, Errand, produce
from ithaca.apps.demo_pipeline_view import PipelineView
from ithaca.apps.demo_story import check_engine
from ithaca.apps.fraud.payments import SCHEMA, SOURCES, decode, events
from ithaca.apps.fraud.plain import hourly
from ithaca.apps.pipelines.events import read_all, share
from ithaca.apps.pipelines.spark import check_can_run_spark, local_spark
from ithaca.cluster.shards import add_local_shard
from ithaca.cluster.temporary import Shape, TemporaryCluster, temporary_cluster
from ithaca.model.engine import EngineName, Feature

if TYPE_CHECKING:
    from ithaca.apps.fraud.store import FraudStore
    from ithaca.apps.pipelines.patience import PatientQuery
    from ithaca.apps.pipelines.stage import Stage

SHAPE = Shape(shards=2, replicas=2, orderers=3)
APPEND_S = 15.0
"""The pace is such that all payments are appended within this time."""
REPLACE_AFTER, HOLD_AT = 0.6, 0.8
"""Shards are replaced when the first part of all payments is acknowledged; what is beyond the second is for the new."""
BATCH_RECORDS = 20_000
"""A micro-batch takes no more."""


def run_pipeline_demo(
    records: int, seed: int, directory: Path | None, keep: bool, plot: Path | None, engine: EngineName
) -> bool:
    """Tell the story; True when every claim held."""
    check_engine(engine, Feature.SESSIONS, Feature.SHARDS)
    check_can_run_spark()
    if plot is not None:
        check_can_plot()
    view = PipelineView(records)
    with demo_home(directory, keep) as home:
        try:
            story = PipelineStory(records, seed, home, view, engine)
            story.tell(plot)
        except DemoFailed as failure:
            view.say(f"FAILED: {failure}")
            return False
        view.table("every claim held", story.figures)
        view.say("checked, each against plain Python:")
        for claim in story.claims:
            view.say(f"  - {claim}")
        if keep:
            view.say(f"kept: the alerts in {home}/results/fraud.sqlite; the cluster: ithaca up --dir {home}/cluster")
    return True


class PipelineStory:
    """The chapters in order, and the figures at the end."""

    def __init__(self, records: int, seed: int, home: Path, view: PipelineView, engine: EngineName) -> None:
        self._records = records
        self._seed = seed
        self._home = home
        self._shape = replace(SHAPE, engine=engine)
        self._view = view
        self._ready = 0
        self._pids: set[int] = set()
        self.figures: list[tuple[str, str]] = []
        self.claims: list[str] = []

    def tell(self, plot: Path | None) -> None:
        """Everything, until the last server is gone."""
        started = time.perf_counter()
        say = self._view.say
        say(f"1. a cluster: {SHAPE.orderers} orderers, {SHAPE.shards} shards of {SHAPE.replicas} replicas; and Spark")
        with temporary_cluster(self._home / "cluster", self._shape, lambda text: None) as cluster:
            say(f"   the cluster is up after {time.perf_counter() - started:.1f} s")
            with local_spark(self._home / "spark") as spark:
                say(f"   Spark is up after {time.perf_counter() - started:.1f} s")
                from ithaca.apps.pipelines.stage import Stage

                results = self._home / "results"
                results.mkdir()
                stage = Stage(spark, cluster.bootstrap, results, lambda: self._add_shard(cluster), say)
                self._run(stage, cluster, plot)
        self._check_nothing_left()
        say("6. the cluster is stopped, and no server is left")
        self.claims = stage.claims.held
        self.figures.append(("all of it took", f"{time.perf_counter() - started:.1f} s"))

    def _run(self, stage: "Stage", cluster: TemporaryCluster, plot: Path | None) -> None:
        from ithaca.apps.fraud.store import FraudStore

        store = FraudStore(stage.home / "fraud.sqlite")
        finalized, replaced_s = self._stream(stage, cluster, store)
        self._analyse(stage, store, finalized, replaced_s, plot)

    # The chapters

    def _stream(self, stage: "Stage", cluster: TemporaryCluster, store: "FraudStore") -> tuple[tuple[int, ...], float]:
        """Append and judge at the same time; returns the shards that were finalized meanwhile, and when."""
        from ithaca.apps.fraud.stream import FraudStream
        from ithaca.apps.pipelines.patience import PatientQuery

        view = self._view
        stream = FraudStream(store, view.judged)
        checkpoint = self._home / "checkpoint"
        start = partial(stream.start, stage.spark, stage.bootstrap, checkpoint, BATCH_RECORDS)
        with PatientQuery(start, view.say) as query:
            query.process_all()  # of a log that is empty: Spark is warm when the first payment comes
            with view, Cast() as cast:
                self._start_gateways(cast, stage.bootstrap)
                view.say(f"2. {SOURCES} gateways append {self._records:,} payments; Spark judges them as they come")
                self._listen(cast, query, until=lambda: view.appended_course.done >= REPLACE_AFTER * self._records)
                began_s = time.monotonic()
                finalized = stage.replace_shards()
                replaced_s = time.monotonic()
                self._remember(cluster)
                took = f"{replaced_s - began_s:.1f} s"
                view.say(f"3. a shard was added, {finalized} are finalized, after {took}; payments and alerts go on")
                self._tell(cast, "go on")
                self._listen(cast, query, until=lambda: view.appended_course.done == self._records)
                query.process_all()
        self._note_stream(store)
        self.figures.append(("shards replaced, under load, within", took))
        return finalized, replaced_s

    def _analyse(
        self, stage: "Stage", store: "FraudStore", finalized: tuple[int, ...], replaced_s: float, plot: Path | None
    ) -> None:
        """Check the stream against plain Python; then ask the finalized shards, and check that as well."""
        import ithaca
        from ithaca.apps.fraud import job
        from ithaca.apps.fraud.pipeline import check_alerts, look_at
        from ithaca.spark import from_json

        say, claims = self._view.say, stage.claims
        say(f"4. {len(store.alerts()):,} alerts; the same in plain Python, from the log as the client reads it:")
        with ithaca.connect(stage.bootstrap) as log:
            held = list(read_all(log))
        claims.log_holds(held, {source: events(self._seed, source, self._records) for source in range(SOURCES)})
        check_alerts(claims, store, held)
        say(f"5. analytics on the finalized shards {finalized}, and on one user:")
        began_s = time.monotonic()
        rows = job.hourly(from_json(stage.shards(finalized), SCHEMA, keep=())).collect()
        hours = [(row.hour, row.payments, row.users, row.cents) for row in rows]
        self.figures.append(("analytics on finalized shards", f"{time.monotonic() - began_s:.1f} s"))
        finished = [decode(record.value) for record in held if record.shard in finalized]
        what = f"payments, users and turnover by hour of {len(finished):,} payments are those of plain Python"
        claims.same(what, hours, hourly(finished))
        self.figures += look_at(stage, held, store.most_alarming_user())
        if plot is not None:
            appended, judged = self._view.appended_course.points, self._view.judged_course.points
            draw(Picture(appended, judged, replaced_s, hours), plot)
            say(f"   a picture of all this: {plot}")

    def _check_nothing_left(self) -> None:
        left = sorted(pid for pid in self._pids if is_running(pid))
        if left:
            raise DemoFailed(f"processes are left behind: {', '.join(map(str, left))}")

    # The gateways, and what is known

    def _start_gateways(self, cast: Cast, bootstrap: str) -> None:
        """All begin together."""
        pace = self._records / APPEND_S / SOURCES
        for source in range(SOURCES):
            hold_at = round(HOLD_AT * share(self._records, SOURCES, source))
            errand = Errand(bootstrap, self._seed, source, self._records, pace, hold_at)
            cast.start(_gateway(source), produce, errand)
        messages = cast.messages()
        while self._ready < SOURCES:
            self._hear(next(messages)[1])
        self._tell(cast, "go")

    def _listen(self, cast: Cast, query: "PatientQuery", until: Callable[[], bool]) -> None:
        messages = cast.messages()
        looked_s = time.monotonic()
        while not until():
            self._hear(next(messages)[1])
            if time.monotonic() > looked_s + 1:
                looked_s = time.monotonic()
                query.check()

    def _hear(self, message: object) -> None:
        if isinstance(message, Ready):
            self._ready += 1
        elif isinstance(message, Appended):
            self._view.appended(message.count, message.at_s)

    def _tell(self, cast: Cast, word: str) -> None:
        for source in range(SOURCES):
            cast.tell(_gateway(source), word)

    def _add_shard(self, cluster: TemporaryCluster) -> int:
        return add_local_shard(cluster.directory, None, masking=False, progress=lambda text: None)

    def _remember(self, cluster: TemporaryCluster) -> None:
        state = cluster.state()
        self._pids |= {state.pid, *(child.pid for child in state.children if child.pid is not None)}

    def _note_stream(self, store: "FraudStore") -> None:
        appended, batches = self._view.appended_course.points, self._view.batches
        rate = self._records / (appended[-1][0] - appended[0][0])
        self.figures += [
            ("payments", f"{self._records:,}"),
            ("appended, synced twice, ordered", f"{rate:,.0f} records/s"),
            ("alerts", f"{len(store.alerts()):,}"),
            ("micro-batches", f"{len(batches):,}"),
            ("from append to alert, median of micro-batches", f"{median(batch.lag_s for batch in batches):.1f} s"),
        ]


def _gateway(source: int) -> str:
    return f"gateway {source}"
