"""Performs what a replica's core says: on the disk, to its peers, and to whoever asked."""

from collections import deque
from collections.abc import Callable
from typing import Any

from ithaca.engines.scalog.messages.appending import Acks, PartSynced
from ithaca.engines.scalog.replica.appends import position_gone
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.replica.events import (
    Acknowledge,
    AcknowledgeAt,
    Advanced,
    AnswerStaged,
    Created,
    CreateLane,
    DropLane,
    Event,
    Fetch,
    FetchRuns,
    Follow,
    ForgetSession,
    ListSessions,
    NoteRuns,
    Refuse,
    Rejoin,
    SendReport,
    Settle,
    SkipRuns,
    StartedAgain,
    Synced,
    SyncRuns,
    Truncate,
    Unfollow,
    Write,
)
from ithaca.engines.scalog.server.replica.copies import Copies, Wanted
from ithaca.engines.scalog.server.replica.disk import LaneDisk
from ithaca.engines.scalog.server.replica.feed import OwnLaneFeed
from ithaca.engines.scalog.server.replica.order import OrderLink
from ithaca.engines.scalog.server.replica.parts import PartFeeds
from ithaca.engines.scalog.server.replica.streams import ReadView
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.model.errors import Corrupt, Trimmed
from ithaca.protocol.failures import failure_of
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import monotonic_s
from ithaca.runtime.metrics import ReplicaMetrics


class Asked:
    """Who asked for an append, and when."""

    __slots__ = ("connection", "since_s")

    def __init__(self, connection: Connection, since_s: float) -> None:
        self.connection = connection
        self.since_s = since_s


class Performing:
    """The effects of one replica, in the order in which they come."""

    def __init__(
        self,
        core: ReplicaCore,
        store: LaneStore,
        lane_disk: LaneDisk,
        copies: Copies,
        order: OrderLink,
        read_view: ReadView,
        metrics: ReplicaMetrics,
        fail: Callable[[Exception], None],
    ) -> None:
        """`fail` is called when the server cannot go on."""
        self._core = core
        self._store = store
        self._lane_disk = lane_disk
        self._copies = copies
        self._read_view = read_view
        self._metrics = metrics
        self._fail = fail
        self.feed: OwnLaneFeed | None = None
        """What is sent of the own lane, once there is one."""
        self._former_feeds: list[OwnLaneFeed] = []
        """Of own lanes of earlier boots, until nobody follows them."""
        self.part_feeds = PartFeeds()
        self._acks: dict[Connection, list[tuple[int, int]]] = {}
        self._has_advanced = False
        self._synced_at: deque[tuple[int, float]] = deque()
        """Lengths of the own lane that were synced and are not ordered yet, and when."""
        self.performers: dict[type, Callable[[Any], None]] = {
            Write: self._write,
            Acknowledge: self._acknowledge,
            AcknowledgeAt: self._acknowledge_at,
            AnswerStaged: self._answer_staged,
            Refuse: self._refuse,
            SendReport: lambda effect: order.report(effect.report),
            ForgetSession: lambda effect: lane_disk.forget_session(effect.lane, effect.producer_id),
            ListSessions: lambda effect: lane_disk.list_sessions(*effect),
            NoteRuns: self._note_runs,
            SkipRuns: lambda effect: store.lanes[effect.lane].runs.skip_to(effect.lsn),
            SyncRuns: lambda effect: lane_disk.sync_runs(effect.cut),
            Advanced: self._advanced,
            CreateLane: lambda effect: lane_disk.create(effect.lane),
            DropLane: self._drop,
            Settle: self._settle,
            Truncate: lambda effect: lane_disk.truncate(effect.lane, effect.length),
            Follow: lambda effect: copies.pull(Wanted(effect.lane, (effect.primary,), None)),
            Fetch: lambda effect: copies.pull(Wanted(effect.lane, effect.peers, effect.stop)),
            FetchRuns: lambda effect: copies.fetch_runs(effect.lane, effect.start, effect.stop, effect.peers),
            Unfollow: self._unfollow,
            Rejoin: lambda effect: order.rejoin(effect.reason),
        }
        """What to do with each kind of effect."""

    def before(self, event: Event) -> None:
        """An event is about to be taken."""
        if isinstance(event, Created) and self._core.is_written_here(event.lane):
            self.part_feeds.made(event.lane, self._store.lanes[event.lane].lane)  # what waited is written now

    def after(self, event: Event) -> None:
        """An event was taken, and what it led to is performed."""
        if isinstance(event, Created) and event.lane == self._core.own_lane:
            self.feed = OwnLaneFeed(event.lane, self._store.lanes[event.lane].lane)
        elif isinstance(event, StartedAgain):
            self._former_feeds += [] if self.feed is None else [self.feed]
            self.feed = None
            self._synced_at.clear()
        elif isinstance(event, Synced):
            if event.lane == self._core.own_lane:
                self._synced_at.append((event.length, monotonic_s()))
            self._copies.written(event.lane)
            if self._core.is_settled(event.lane):
                self._lane_disk.retire(event.lane)

    def finish_turn(self) -> None:
        """Say what is said once, however many events there were."""
        if self._acks:
            acks, self._acks = self._acks, {}
            leaving = self._core.leaving_view
            for connection, items in acks.items():
                connection.send(Acks(tuple(items), leaving))
                if connection.passage is not None:
                    for correlation, _ in items:
                        connection.passage.settled(correlation)
        if self._has_advanced:
            self._has_advanced = False
            self._read_view.advanced()

    def connection_lost(self, connection: Connection) -> None:
        self._acks.pop(connection, None)
        for feed in (*self._former_feeds, *([] if self.feed is None else [self.feed])):
            feed.stop(connection)
        self._former_feeds = [feed for feed in self._former_feeds if feed.is_followed]
        self.part_feeds.stop(connection)

    # The effects

    def _write(self, effect: Write) -> None:
        if self.feed is not None and effect.lane == self._core.own_lane:
            self.feed.add(effect.batch, effect.position)
        elif effect.lane.is_part:
            self.part_feeds.add(effect.lane, effect.batch)
        self._lane_disk.write(effect.lane, effect.batch, effect.position)

    def _acknowledge(self, effect: Acknowledge) -> None:
        asked = effect.request.connection
        assert isinstance(asked, Asked)
        self._metrics.acknowledged(monotonic_s() - asked.since_s)
        self._acks.setdefault(asked.connection, []).append((effect.request.correlation, effect.position))

    def _acknowledge_at(self, effect: AcknowledgeAt) -> None:
        lane = self._core.own_lane
        assert lane is not None
        try:
            held = self._store.get(lane)
            assert held is not None
            position = held.runs.position_of(effect.lsn)
        except Trimmed:
            self._refuse(Refuse(effect.request, position_gone()))
        except Corrupt as error:  # the batch is ordered, and only the next start can say where
            self._fail(error)
        else:
            self._acknowledge(Acknowledge(effect.request, position))

    def _answer_staged(self, effect: AnswerStaged) -> None:
        asked = effect.request.connection
        assert isinstance(asked, Asked)
        asked.connection.send(PartSynced(effect.length), correlation=effect.request.correlation, answer=True)

    def _refuse(self, effect: Refuse) -> None:
        asked = effect.request.connection
        assert isinstance(asked, Asked)
        self._metrics.refused(effect.error)
        asked.connection.send(failure_of(effect.error), correlation=effect.request.correlation, answer=True)

    def _advanced(self, effect: Advanced) -> None:
        self._has_advanced = True
        if effect.first > self._store.first:
            self._store.first = effect.first
            self._lane_disk.trim(effect.first)

    def _note_runs(self, effect: NoteRuns) -> None:
        self._store.note(effect.runs, effect.time_us)
        own, synced_at = self._core.own_lane, self._synced_at
        for run in effect.runs:
            while run.lane == own and synced_at and synced_at[0][0] <= run.lsn + run.count:
                self._metrics.ordered(monotonic_s() - synced_at.popleft()[1])

    def _drop(self, effect: DropLane) -> None:
        self._copies.stop(effect.lane)
        self.part_feeds.ended(effect.lane)
        self._lane_disk.drop(effect.lane)
        self._metrics.drop_lane(effect.lane)

    def _settle(self, effect: Settle) -> None:
        self._lane_disk.settle(effect.lane)
        self._metrics.drop_lane(effect.lane)

    def _unfollow(self, effect: Unfollow) -> None:
        self._copies.stop(effect.lane)
        self.part_feeds.ended(effect.lane)
        if self._core.is_settled(effect.lane):
            self._lane_disk.retire(effect.lane)
