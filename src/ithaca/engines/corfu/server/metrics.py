"""What monitoring reads of units and orderers: numbers of their status, asked for when somebody looks."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

UNIT = {
    "epoch": "The epoch that the unit accepts, or has sealed",
    "is_sealed": "Whether it accepts nothing until the next epoch",
    "rows": "Rows that it holds",
    "highest_row": "The highest row that was ever written",
    "trimmed_below": "Rows below this one were trimmed",
    "trimmed_ranges": "Ranges of rows that were trimmed one by one",
    "unsynced_writes": "Writes that wait for the disk",
    "waiting_readers": "Readers that wait for a row",
    "connections": "Connections that are open",
}
UNIT_COUNTS = {
    "written_rows": "Rows that were written and synced",
    "received_bytes": "Batches received, in bytes",
    "read_rows": "Rows that were sent",
    "sent_bytes": "Batches sent, in bytes",
}
ORDERER = {
    "is_leader": "Whether it leads the Raft group",
    "term": "The term of Raft",
    "epoch": "The epoch of the projection that it knows",
    "is_sequencer": "Whether it hands out rows",
    "next_row": "The row that is handed out next",
    "bound": "Rows below this one may be handed out",
    "short_chains": "Chains that have fewer units than they should",
    "connections": "Connections that are open",
}
ORDERER_COUNTS = {
    "tokens": "Rows that this server has handed out",
    "copied_rows": "Rows that units have copied while it led",
}


class StatusMetrics(Collector):
    """Gauges and counters of a server, by the names that its status has for them."""

    def __init__(
        self, role: str, gauges: Mapping[str, str], counts: Mapping[str, str], status: Callable[[], dict[str, Any]]
    ) -> None:
        self._role = role
        self._gauges = gauges
        self._counts = counts
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        for name, text in self._gauges.items():
            if status[name] is not None:
                yield GaugeMetricFamily(f"ithaca_{self._role}_{name}", text, value=status[name])
        for name, text in self._counts.items():
            yield CounterMetricFamily(f"ithaca_{self._role}_{name}", text, value=status[name])

    def describe(self) -> Iterator[Metric]:
        """Nothing is asked before the server is there."""
        return iter(())


def registry_of(metrics: StatusMetrics) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(registry=registry)
    return registry
