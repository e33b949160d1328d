"""What a server counts and times, for Prometheus. Each server has a registry of its own, whatever its process.

Servers call the methods where something happens; what can be read at any time (`connections`, `pending_bytes`,
`tail` ...) is a gauge with `set_function`, asked for only when somebody looks. Times are in seconds.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ithaca.model.errors import IthacaError
from ithaca.model.limit_use import Uses
from ithaca.model.positions import LaneId
from ithaca.runtime.listener import HttpAnswer

_SECONDS = (5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_BATCHES = tuple(1 << power for power in range(0, 13, 2))
_BYTES = tuple(1 << power for power in range(10, 27, 2))


def exposition(registry: CollectorRegistry) -> HttpAnswer:
    """The answer to `GET /metrics`."""
    return HttpAnswer(200, CONTENT_TYPE_LATEST, generate_latest(registry))


class _LimitCollector(Collector):
    """What is used of each limit, asked for when somebody looks."""

    def __init__(self, role: str, uses: Callable[[], Uses]) -> None:
        self._role = role
        self._uses = uses

    def collect(self) -> Iterator[GaugeMetricFamily]:
        used = GaugeMetricFamily(f"ithaca_{self._role}_limit_used", "What is used of a limit", labels=["limit"])
        limit = GaugeMetricFamily(f"ithaca_{self._role}_limit", "How much of it there is", labels=["limit"])
        for name, (now, maximum) in self._uses().items():
            used.add_metric([name], now)
            limit.add_metric([name], maximum)
        yield used
        yield limit

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing is asked before the server is there."""
        return iter(())


Lags = Callable[[], Iterable[tuple[str, int, int, float]]]
"""Name, position, positions behind the tail and for how many seconds, of each consumer."""


class _ConsumerCollector(Collector):
    """Where named consumers stand, asked for when somebody looks; servers that do not lead say nothing."""

    def __init__(self, lags: Lags) -> None:
        self._lags = lags

    def collect(self) -> Iterator[GaugeMetricFamily]:
        position = GaugeMetricFamily(
            "ithaca_orderer_consumer_position", "Everything below was processed", labels=["consumer"]
        )
        behind = GaugeMetricFamily(
            "ithaca_orderer_consumer_lag_positions", "Positions up to the tail", labels=["consumer"]
        )
        seconds = GaugeMetricFamily(
            "ithaca_orderer_consumer_lag_seconds", "Since the tail was there, as far as known", labels=["consumer"]
        )
        for name, at, positions, since_s in self._lags():
            position.add_metric([name], at)
            behind.add_metric([name], positions)
            seconds.add_metric([name], since_s)
        yield position
        yield behind
        yield seconds

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing is asked before the server is there."""
        return iter(())


class _ServerMetrics:
    """What servers of every role have."""

    def __init__(self, registry: CollectorRegistry, role: str) -> None:
        self._registry = registry
        self._role = role
        self.connections = self._gauge("connections", "Connections that are open")
        self.received_bytes = self._counter("received_bytes", "Batches received, in bytes")
        self.sent_bytes = self._counter("sent_bytes", "Batches sent, in bytes")
        self.refusals = Counter(
            f"ithaca_{role}_refusals", "Requests and connections refused", ["error"], registry=registry
        )
        ProcessCollector(registry=registry)

    def observe_limits(self, uses: Callable[[], Uses]) -> None:
        """From now on say what is used of each limit."""
        self._registry.register(_LimitCollector(self._role, uses))

    def refused(self, error: IthacaError) -> None:
        """A request or a connection was refused, for this reason."""
        self.refusals.labels(type(error).__name__).inc()

    def sent(self, byte_count: int) -> None:
        """Batches of so many bytes went out: to readers and to peers."""
        self.sent_bytes.inc(byte_count)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"ithaca_{self._role}_{name}", text, registry=self._registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"ithaca_{self._role}_{name}", text, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
        return Histogram(f"ithaca_{self._role}_{name}", text, buckets=buckets, registry=self._registry)


class ReplicaMetrics(_ServerMetrics):
    """Of a replica. Latencies are of batches: what a client waits for is `append_seconds` and two trips."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry, "replica")
        self.append_seconds = self._histogram("append_seconds", "From accepting a batch to acknowledging it")
        self.order_seconds = self._histogram("order_seconds", "From a batch's own sync to its order")
        self.sync_seconds = self._histogram("sync_seconds", "Writing and syncing one group")
        self.group_batches = self._histogram("group_batches", "Batches synced together", _BATCHES)
        self.group_bytes = self._histogram("group_bytes", "Bytes synced together", _BYTES)
        self.received_batches = self._counter("received_batches", "Batches received")
        self.received_records = self._counter("received_records", "Records received")
        self.cuts = self._counter("cuts", "Cuts applied")
        self._damage = Counter(
            "ithaca_replica_damage", "Times that bytes of a lane did not check out", ["found"], registry=registry
        )
        self.pending_bytes = self._gauge("pending_bytes", "Accepted and not yet ordered")
        self.write_queue_bytes = self._gauge("write_queue_bytes", "Handed to the disk and not yet synced")
        self.tail = self._gauge("tail", "The next position, as far as this replica knows")
        self.readable = self._gauge("readable", "Positions below this can be read here")
        self._lanes: set[LaneId] = set()
        self._durable = Gauge("ithaca_replica_lane_durable", "Records synced here", ["lane"], registry=registry)
        self._ordered = Gauge("ithaca_replica_lane_ordered", "Records ordered", ["lane"], registry=registry)

    def accepted(self, batches: int, records: int, byte_count: int) -> None:
        """Batches came in: from clients, or from the peers that this replica backs up."""
        self.received_batches.inc(batches)
        self.received_records.inc(records)
        self.received_bytes.inc(byte_count)

    def synced(self, seconds: float, batches: int, byte_count: int) -> None:
        """One group was written and synced."""
        self.sync_seconds.observe(seconds)
        self.group_batches.observe(batches)
        self.group_bytes.observe(byte_count)

    def ordered(self, seconds: float) -> None:
        """A batch was ordered, so long after it was synced here."""
        self.order_seconds.observe(seconds)

    def acknowledged(self, seconds: float) -> None:
        """A batch was acknowledged, so long after it was accepted."""
        self.append_seconds.observe(seconds)

    def damaged(self, found: Literal["starting", "running"]) -> None:
        """Something that was synced here does not check out: found when the replica started, or later."""
        self._damage.labels(found).inc()

    def lane(self, lane: LaneId, *, durable: int, ordered: int) -> None:
        """A lane's lengths now."""
        self._lanes.add(lane)
        self._durable.labels(str(lane)).set(durable)
        self._ordered.labels(str(lane)).set(ordered)

    def drop_lane(self, lane: LaneId) -> None:
        """The lane is not held any more; unknown lanes are ignored."""
        if lane in self._lanes:
            self._lanes.remove(lane)
            self._durable.remove(str(lane))
            self._ordered.remove(str(lane))


class OrdererMetrics(_ServerMetrics):
    """Of an orderer. Cuts, reports and proposals count on the leader, commits and persists everywhere."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry, "orderer")
        self.persist_seconds = self._histogram("persist_seconds", "Writing and syncing entries of the Raft log")
        self.commit_seconds = self._histogram("commit_seconds", "From proposing an entry to applying it")
        self.proposals = self._counter("proposals", "Entries proposed here")
        self.commits = self._counter("commits", "Entries applied")
        self.reports = self._counter("reports", "Reports received from replicas")
        self.cuts = self._counter("cuts", "Cuts applied")
        self.is_leader = self._gauge("is_leader", "1 on the leader, else 0")
        self.term = self._gauge("term", "The Raft term")
        self.sessions = self._gauge("sessions", "Sessions that have not expired")
        self.state_bytes = self._gauge(
            "state_bytes", "A bound on the bytes of a snapshot of the ordering layer's state"
        )
        self.joined = self._gauge("joined", "Replicas that follow the order here")
        self.tail = self._gauge("tail", "The next position")

    def observe_consumers(self, lags: Lags) -> None:
        """From now on say where consumers stand."""
        self._registry.register(_ConsumerCollector(lags))

    def persisted(self, seconds: float) -> None:
        """Entries, votes or a snapshot were written and synced."""
        self.persist_seconds.observe(seconds)

    def committed(self, seconds: float) -> None:
        """An entry of this leader was applied, so long after it was proposed."""
        self.commit_seconds.observe(seconds)


class AggregatorMetrics(_ServerMetrics):
    """Of an aggregator: how much it spares whoever is above it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry, "aggregator")
        self.reports = self._counter("reports", "Reports received")
        self.passed = self._counter("passed", "Reports passed on: the newest of each replica")
        self.messages = self._counter("messages", "Messages that reports were passed on in")
        self.cuts = self._counter("cuts", "Cuts passed on")
        self.joined = self._gauge("joined", "Replicas that follow the order through here")
        self.is_attached = self._gauge("is_attached", "1 while there is a link to the leader, else 0")
