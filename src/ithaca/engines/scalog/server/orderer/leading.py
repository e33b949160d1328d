"""One term of leading the ordering layer: configure the log if that is still to be done, then order.

A `LeaderService` lives exactly as long as its server leads one term. Nothing on the way from a report to a cut waits
or makes a task: a report is received, the cut that it makes due is handed to Raft within the same call.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ithaca.consumers.table import ConsumerChanges
from ithaca.engines.scalog.messages.appending import FinishPart
from ithaca.engines.scalog.ordering.decisions.cluster_file import missing as missing_entries
from ithaca.engines.scalog.ordering.entries import OrderingEntry, encode_entry
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.outcomes import ConsumersTold, Outcome, RefusedEntry, ViewChanged
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.losses import LossKeeping
from ithaca.engines.scalog.server.orderer.failures import FailureService
from ithaca.engines.scalog.server.orderer.names import NameKeeping
from ithaca.engines.scalog.server.orderer.parts import PartKeeping
from ithaca.engines.scalog.server.orderer.ports import Warnings
from ithaca.engines.scalog.server.orderer.retention import OrderRetention
from ithaca.engines.scalog.server.orderer.spares import SpareService
from ithaca.engines.scalog.server.orderer.time import OrderTime
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.consumers import ConsumerOutcome
from ithaca.model.errors import IthacaError
from ithaca.model.limits import ORDERER_RETRY_S, RETENTION_CHECK_S, SESSIONS_CHECK_S
from ithaca.runtime.dialling import Said
from ithaca.runtime.machine import monotonic_ns, monotonic_s, new_uuid
from ithaca.runtime.metrics import OrdererMetrics
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.runtime.raft.ports import Waiter
from ithaca.server.consumers import ConsumerDesk

_log = logging.getLogger("ithaca.orderer")


class LeaderService:
    """The leader's work during one term."""

    leaves_shards = True
    """Whether the lanes of a shard that cannot order are closed; an engine that is built on this one may do else."""

    def __init__(
        self,
        file: ClusterFile,
        term: int,
        state: OrderingState,
        driver: RaftDriver,
        metrics: OrdererMetrics,
        ready: Callable[[], None],
        hello: Callable[[], Said],
        clock: OrderTime,
    ) -> None:
        """`ready` is called when requests can be taken; `hello` is what this server says to others."""
        self._file = file
        self._term = term
        self._state = state
        self._driver = driver
        self._metrics = metrics
        self._ready = ready
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._leader: CutProposer | None = None
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._is_over = False
        self._refused: set[OrderingEntry] = set()  # of the file: what it says contradicts what was agreed
        self._parts = PartKeeping(state, self._order, self._plan, clock.lead)
        self._has_all = False
        self.is_ready = False
        """Whether the log is configured with all shards of the file, and requests can be taken."""
        warnings = Warnings()
        self.spares = SpareService(state, self._order, driver.submit_read, self._plan, warnings)
        self._failures = FailureService(
            file.watching, state, self.spares, self._order, warnings, leaves_shards=self.leaves_shards
        )
        self._hello = hello
        self._retaining: OrderRetention | None = None
        self.losses = LossKeeping(state, hello, self._order)
        self._names = NameKeeping(file, state, hello, self._order, clock.lead)
        self.consumers = ConsumerDesk(self._change_consumers, lambda: state.consumers, clock.lead, file.consumer_idle_s)
        self._begin_ordering()
        self._prepare()
        self._plan(SESSIONS_CHECK_S, self._look_for_idle_names)
        self._plan(self._failures.look_s, self._look_for_failures)

    def end(self) -> None:
        """Another term has begun, or the server stops."""
        self._is_over = True
        self.is_ready = False
        self._leader = None
        self._parts.end()
        self._names.end()
        self.losses.end()
        self.consumers.end()
        self.spares.close()
        if self._retaining is not None:
            self._retaining.end()
        for timer in self._timers.values():
            timer.cancel()

    def retention_status(self) -> dict[str, int] | None:
        """What retention has announced to trim."""
        return None if self._retaining is None else self._retaining.status()

    # Ordering

    def receive(self, report: Report) -> None:
        """Take in a report, and propose the cut that it makes due."""
        self.receive_all((report,))

    def receive_all(self, reports: Sequence[Report]) -> None:
        """Take in reports that came together, and propose the cut that they make due. Each is a sign of life."""
        self._metrics.reports.inc(len(reports))
        self._failures.heard_all((report.shard, report.replica) for report in reports)
        leader = self._leader
        if leader is None:
            return
        accepted = list(filter(leader.receive, reports))
        if accepted:
            self.propose()
            if self._parts.are_awaited:
                for shard in dict.fromkeys(report.shard for report in accepted):
                    self._parts.reported(leader, shard)
            if self.spares.has_learners:
                for report in accepted:
                    self.spares.reported(leader, report)

    def heard(self, shard: int, replica: int, is_complete: bool) -> None:
        """A replica has given a sign of life, and said whether it lacks nothing."""
        self._failures.heard(shard, replica, is_complete)

    def may_open(self, shard: int, replica: int, boot: int) -> bool:
        """Whether a replica that joins may have a lane; else it waits until its shard can order."""
        return self._failures.availability.may_open(shard, replica, boot)

    def joined_without_lane(self, shard: int, replica: int, boot: int) -> None:
        """A replica was let in, and no entry says which start of it this is."""
        if self._leader is not None:
            self._leader.restarted(shard, replica, boot)
        self.heard(shard, replica, is_complete=False)

    def silent(self) -> dict[int, list[int]]:
        """The replicas of each shard of which nothing was heard for too long."""
        shards = self._state.shards.by_number.values()
        return {shard.shard: self._failures.availability.silent(shard) for shard in shards}

    def applied(self, term: int, outcomes: list[Outcome]) -> None:
        """The state has applied an entry that was proposed in `term`; `propose` once all outcomes are told."""
        if self._leader is not None:
            self._leader.applied(outcomes, own=term == self._term)
        else:
            self._begin_ordering()
        self._parts.applied(self._leader, outcomes)
        self.consumers.noted(self._state.tail)
        if any(isinstance(outcome, ViewChanged) for outcome in outcomes):
            self.spares.view_changed()

    def finish_part(
        self, message: FinishPart, done: Callable[[list[Outcome]], None], failed: Callable[[IthacaError], None]
    ) -> None:
        """Seal a part as soon as it is durable."""
        self._parts.finish(self._leader, message, done, failed)

    def propose(self) -> None:
        """Propose a cut if one is due, else plan for when one will be."""
        leader = self._leader
        if leader is None:
            return
        now_us, time_us = monotonic_ns() // 1000, self._clock.lead()
        cut = leader.propose(now_us, time_us)
        deadline_us = leader.deadline_us(now_us, time_us)
        if deadline_us is not None:
            self._plan((deadline_us - now_us) / 1e6, self.propose)
        if cut is not None:  # a refusal, which may come at once, replaces the plan
            self._submit(encode_entry(cut), lambda _: None, self._cut_refused)

    def _begin_ordering(self) -> None:
        if self._state.configuration is not None:
            self._leader = self._make_proposer()
            self._parts.look_at(self._state.parts.next_until_us)

    def _make_proposer(self) -> CutProposer:
        return CutProposer(self._state)

    def _cut_refused(self, error: IthacaError) -> None:
        if self._leader is not None:
            _log.warning("a cut was not taken: %s", error)
            self._leader.refused()
            self._plan(ORDERER_RETRY_S, self.propose)

    def _look_what_may_go(self) -> None:
        assert self._retaining is not None
        self._retaining.look()
        self._plan(RETENTION_CHECK_S, self._look_what_may_go)

    def _look_for_idle_names(self) -> None:
        if self.is_ready:
            self._names.look()
        self._plan(SESSIONS_CHECK_S, self._look_for_idle_names)

    # Replicas that come and go

    def _look_for_failures(self) -> None:
        self._failures.look()
        self._plan(self._failures.look_s, self._look_for_failures)

    # Configuring

    def _prepare(self) -> None:
        """Look at what is agreed so far, which is certain only once an entry of this term is committed."""
        self._driver.submit_read(Waiter(self._propose_missing, self._not_prepared))

    def _propose_missing(self, index: int = 0) -> None:
        if self._is_over:
            return
        if not self._has_all:
            self._catch_up()
        log = new_uuid() if self._state.configuration is None else self._state.configuration.log
        missing = [entry for entry in missing_entries(self._file, self._state, log) if entry not in self._refused]
        self.is_ready = not missing
        if self.is_ready:
            self.consumers.begin()
            self._ready()
        for place, entry in enumerate(missing, 1):  # entries are applied in the order in which they are proposed
            done = self._note_refusal if place < len(missing) else self._note_last
            self._submit(encode_entry(entry), done, self._not_prepared)

    def _catch_up(self) -> None:
        """All that was ordered before this term is applied now."""
        self._has_all = True
        self._clock.applied(self._state.time_us)  # a snapshot brings it without an entry
        if self._file.retention is not None:  # it trusts the time as it is before it may leap
            self._retaining = OrderRetention(self._file.retention, self._state, self._hello, self._order, self._clock)
            self._plan(RETENTION_CHECK_S, self._look_what_may_go)
        self._clock.caught_up()

    def _note_last(self, outcomes: list[Outcome]) -> None:
        self._note_refusal(outcomes)
        self._propose_missing()

    def _note_refusal(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, RefusedEntry):
                _log.warning("the cluster's file cannot be followed: %s: %s", outcome.entry, outcome.reason)
                self._refused.add(outcome.entry)

    def _not_prepared(self, error: IthacaError) -> None:
        if not self._is_over:
            self._plan(ORDERER_RETRY_S, self._prepare)

    # What others have ordered

    def _change_consumers(
        self,
        changes: ConsumerChanges,
        done: Callable[[tuple[ConsumerOutcome, ...]], None],
        failed: Callable[[IthacaError], None],
    ) -> None:
        def applied(outcomes: list[Outcome]) -> None:
            (told,) = outcomes
            assert isinstance(told, ConsumersTold), "the log is configured"
            done(told.outcomes)

        self._order(changes, applied, failed)

    def _order(
        self,
        entry: OrderingEntry,
        done: Callable[[list[Outcome]], None],
        failed: Callable[[IthacaError], None],
    ) -> None:
        self._submit(encode_entry(entry), done, failed)

    def _submit(
        self, payload: bytes, done: Callable[[list[Outcome]], None], failed: Callable[[IthacaError], None]
    ) -> None:
        started_s = monotonic_s()

        def applied(outcomes: list[Outcome]) -> None:
            self._metrics.committed(monotonic_s() - started_s)
            done(outcomes)

        self._metrics.proposals.inc()
        self._driver.submit(payload, Waiter(applied, failed))

    def _plan(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call it then; a plan for the same replaces this one."""
        planned = self._timers.pop(action, None)
        if planned is not None:
            planned.cancel()
        self._timers[action] = self._loop.call_later(delay_s, action)
