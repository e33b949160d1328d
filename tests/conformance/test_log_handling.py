"""What people do with a log in their hands: look at it, index it, make tables of it."""

import sys
from datetime import UTC, datetime, timedelta

import pytest

from ithaca.model.engine import Feature
from ithaca.model.errors import InvalidInput, NotWritten, Unsupported
from ithaca.model.interface import Log
from tests.conformance.engines import Deployment, Engine


def test_ranges_begin_and_end_where_subscriptions_may_begin(log: Log) -> None:
    before = datetime.now(UTC) - timedelta(hours=1)
    first = log.append_many([b"a", b"b", b"c"]).position

    def values(*bounds: int | str | datetime) -> list[bytes]:
        return [record.value for record in log.read_range(*bounds)]  # type: ignore[arg-type]

    assert values("earliest") == values(before) == values(1, "latest") == [b"a", b"b", b"c"]
    assert values("earliest", first + 2) == [b"a", b"b"]
    assert values("latest") == values("earliest", before) == values(before + timedelta(hours=2)) == []
    with pytest.raises(InvalidInput, match="stop is 'tomorrow': use a position"):
        values(1, "tomorrow")
    with pytest.raises(InvalidInput, match="no time zone"):
        values(datetime(2026, 1, 1))


def test_indexes_are_positions(log: Log) -> None:
    first = log.append_many([b"a", b"b", b"c"]).position
    assert log[first + 1].value == b"b"
    assert [record.value for record in log[first + 1 :]] == [b"b", b"c"]
    assert [record.value for record in log[: first + 2]] == [b"a", b"b"]
    for wrong in (0, -1):
        with pytest.raises(InvalidInput, match="below 1, the first position"):
            log[wrong]
    with pytest.raises(NotWritten):
        log[log.tail()]
    with pytest.raises(InvalidInput, match="leaves records out"):
        log[1:3:2]


def test_what_a_log_is_not_says_what_to_write(log: Log) -> None:
    with pytest.raises(InvalidInput, match=r"log.tail\(\) - log.first\(\)"):
        len(log)
    with pytest.raises(InvalidInput, match="read_range"):
        iter(log)
    assert log


def test_everything_shows_itself(deployment: Deployment) -> None:
    log = deployment.open()
    at = log.append(b"a").position
    records, subscription = log.read_range(at), log.subscribe(at)
    assert "Log" in repr(log)
    assert repr(log).endswith(", open>")
    pending = log.submit(b"b")
    pending.result()
    assert "Pending" in repr(pending)
    assert "object at" not in repr(pending)
    origin = repr(log).partition(",")[0].rpartition(" ")[2]
    assert f"Subscription of {origin}, at position {at}" in repr(subscription)
    (batch,) = records.take_batches()
    assert repr(batch) == f"<ithaca.Batch of 1 records from position {at}, shard {batch.shard}>"
    assert f"Records of {origin}, at position {records.position}" in repr(records)
    assert records.position > at
    subscription.close()
    assert repr(subscription).endswith(", closed>")
    records.close()
    log.close()
    assert repr(log).endswith(", closed>")


def test_a_session_shows_itself(log: Log, engine: Engine) -> None:
    engine.require(Feature.SESSIONS)
    assert "Session 'shown'" in repr(log.session("shown"))


def test_ranges_become_tables(log: Log) -> None:
    positions = [*log.append_many([b"a", b"b"], keys=[b"k", None]).positions, log.append(b"c").position]
    table = log.read_range("earliest").to_arrow()
    assert table.column_names == ["position", "shard", "timestamp", "key", "value"]
    assert table.column("position").to_pylist() == positions
    assert table.column("key").to_pylist() == [b"k", None, None]
    assert table.column("timestamp").to_pylist()[2] == log[positions[2]].timestamp
    assert log.read_range("latest").to_arrow().num_rows == 0
    assert list(log.read_range(positions[1]).to_pandas()["value"]) == [b"b", b"c"]
    with log.subscribe(1) as subscription, pytest.raises(InvalidInput, match="no end: use read_range"):
        subscription.to_arrow()


def test_a_package_that_is_missing_is_named(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(Unsupported, match="needs the package polars: pip install polars pyarrow"):
        log.read_range("earliest").to_polars()
