"""What servers count: the names that dashboards rely on, and one registry per server."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from ithaca.model.errors import Overloaded, Trimmed
from ithaca.model.positions import LaneId
from ithaca.runtime.metrics import OrdererMetrics, ReplicaMetrics, exposition


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """Everything that `GET /metrics` says, by name and labels."""
    text = exposition(registry).body.decode()
    return {
        sample.name + "".join(f" {key}={value}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_replica() -> None:
    registry = CollectorRegistry()
    metrics = ReplicaMetrics(registry)
    metrics.accepted(2, 300, 4096)
    metrics.sent(512)
    metrics.synced(0.0003, 2, 4096)
    metrics.ordered(0.0007)
    metrics.acknowledged(0.0011)
    metrics.cuts.inc()
    metrics.pending_bytes.set(4096)
    metrics.connections.set_function(lambda: 3)
    metrics.refused(Overloaded("too much"))
    metrics.refused(Overloaded("too much"))
    metrics.refused(Trimmed("gone", first=7))
    found = samples(registry)
    expected = {
        "received_batches_total": 2,
        "received_records_total": 300,
        "received_bytes_total": 4096,
        "sent_bytes_total": 512,
        "sync_seconds_sum": 0.0003,
        "sync_seconds_bucket le=0.0002": 0,
        "sync_seconds_bucket le=0.0005": 1,
        "group_batches_sum": 2,
        "group_bytes_sum": 4096,
        "order_seconds_count": 1,
        "append_seconds_bucket le=0.002": 1,
        "cuts_total": 1,
        "pending_bytes": 4096,
        "write_queue_bytes": 0,
        "connections": 3,
        "refusals_total error=Overloaded": 2,
        "refusals_total error=Trimmed": 1,
    }
    assert {name: found[f"ithaca_replica_{name}"] for name in expected} == pytest.approx(expected)
    assert found["process_resident_memory_bytes"] > 0


def test_lanes_come_and_go() -> None:
    registry = CollectorRegistry()
    metrics = ReplicaMetrics(registry)
    metrics.lane(LaneId(0, 1, 2), durable=9, ordered=7)
    metrics.lane(LaneId(0, 1, 3), durable=1, ordered=0)
    metrics.drop_lane(LaneId(0, 1, 2))
    metrics.drop_lane(LaneId(0, 1, 2))
    lanes = {name: value for name, value in samples(registry).items() if "lane=" in name}
    assert lanes == {
        "ithaca_replica_lane_durable lane=0-1-3": 1,
        "ithaca_replica_lane_ordered lane=0-1-3": 0,
    }


def test_an_orderer() -> None:
    registry = CollectorRegistry()
    metrics = OrdererMetrics(registry)
    metrics.persisted(0.004)
    metrics.committed(0.006)
    for counter in (metrics.proposals, metrics.commits, metrics.reports, metrics.cuts):
        counter.inc(5)
    for number, gauge in enumerate(
        (metrics.is_leader, metrics.term, metrics.sessions, metrics.joined, metrics.tail), 1
    ):
        gauge.set(number)
    found = samples(registry)
    expected = {
        "persist_seconds_sum": 0.004,
        "commit_seconds_sum": 0.006,
        "proposals_total": 5,
        "commits_total": 5,
        "reports_total": 5,
        "cuts_total": 5,
        "is_leader": 1,
        "term": 2,
        "sessions": 3,
        "joined": 4,
        "tail": 5,
        "connections": 0,
    }
    assert {name: found[f"ithaca_orderer_{name}"] for name in expected} == pytest.approx(expected)


def test_servers_of_one_process_count_apart() -> None:
    one, other = CollectorRegistry(), CollectorRegistry()
    metrics, _ = ReplicaMetrics(one), ReplicaMetrics(other)
    OrdererMetrics(CollectorRegistry())
    metrics.cuts.inc()
    assert [samples(each)["ithaca_replica_cuts_total"] for each in (one, other)] == [1, 0]


def test_the_answer_is_what_prometheus_reads() -> None:
    answer = exposition(CollectorRegistry())
    assert answer.status == 200
    assert answer.content_type.startswith("text/plain; version=")
