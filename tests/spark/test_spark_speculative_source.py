"""The speculative stream: numbered events, a restart that voids what was not confirmed, a batch that is repeated."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ithaca
from ithaca.apps.alerts.store import Alert, AlertStore, Step
from ithaca.model.errors import InvalidInput, Unsupported
from ithaca.spark.options import Options, read_options
from ithaca.spark.speculative import Offset, Row, SpeculativeDataSource, SpeculativeStreamReader
from ithaca.testing import Cluster


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Cluster(tmp_path_factory.mktemp("speculative") / "cluster", shards=2, engine="belfast") as cluster:
        with ithaca.connect(cluster.bootstrap) as log:
            for number in range(30):
                log.append(b"%d" % number, key=b"even" if number % 2 == 0 else b"odd")
        yield cluster.bootstrap


@contextmanager
def reader(bootstrap: str, **more: str) -> Iterator[SpeculativeStreamReader]:
    given = {"bootstrap": bootstrap, "startingOffsets": "earliest", **more}
    source = SpeculativeStreamReader(read_options(Options(given), "stream"))
    try:
        yield source
    finally:
        source.stop()


def read_until(source: SpeculativeStreamReader, start: Offset, confirmed: int) -> tuple[list[Row], Offset]:
    rows: list[Row] = []
    offset = start
    for _ in range(100):
        found, offset = source.read(offset)
        rows += found
        if offset["confirmed"] >= confirmed:
            return rows, offset
    raise AssertionError(f"confirmed to {offset}, and not to {confirmed}")


def test_events_are_numbered_and_a_restart_voids_what_was_not_confirmed(bootstrap: str) -> None:
    with ithaca.connect(bootstrap) as log:
        held = list(log.read_range("earliest"))
    with reader(bootstrap) as source:
        rows, offset = read_until(source, source.initialOffset(), held[-1].position)
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    assert offset["number"] == len(rows)
    delivered = [(row[3], row[7]) for row in rows if row[1] == "delivered"]
    assert delivered == [(record.position, record.value) for record in held]
    with reader(bootstrap) as again:
        voided, after = again.read(offset)
    assert next(voided)[:4] == (len(rows) + 1, "failed", None, offset["confirmed"])
    assert after["number"] >= len(rows) + 1


def test_a_batch_that_is_repeated_has_what_was_confirmed(bootstrap: str) -> None:
    with ithaca.connect(bootstrap) as log:
        held, last = list(log.read_range("earliest")), log.tail() - 1
    middle = held[10].position
    with reader(bootstrap, keyFilter="equals:even") as source:
        rows = list(source.readBetweenOffsets({"number": 7, "confirmed": middle}, {"number": 90, "confirmed": last}))
    assert rows[0][:4] == (8, "failed", None, middle)
    assert rows[-1][1:4] == ("confirmed", None, last)
    assert [row[7] for row in rows[1:-1]] == [each.value for each in held[11:] if each.key == b"even"]


def test_what_cannot_speculate_is_refused(bootstrap: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not speculate"):
        SpeculativeStreamReader(read_options(Options({"path": str(tmp_path)}), "stream"))
    with pytest.raises(InvalidInput, match="there is no option asOf"):
        SpeculativeDataSource({"bootstrap": bootstrap, "asOf": "3"})
    with (
        Cluster(tmp_path / "cluster") as cluster,
        reader(cluster.bootstrap) as source,
        pytest.raises(Unsupported, match="belfast"),
    ):
        source.read(source.initialOffset())


def test_rows_are_alerts_once_they_are_confirmed(tmp_path: Path) -> None:
    store = AlertStore(tmp_path / "alerts.sqlite")
    first, second, third = (Alert(at, "user", 1) for at in (3, 5, 9))
    steps = [Step(4, "failed", 3), Step(1, "delivered", 3, first), Step(2, "delivered", 5, second)]
    assert store.commit(0, [*steps, Step(3, "confirmed", 3)]) == 1
    assert (store.alerts(), store.confirmed) == ([first], 3)
    store.commit(1, [Step(5, "delivered", 9, third)])
    assert store.alerts() == [first]
    store.commit(2, [Step(6, "confirmed", 12)])
    assert (store.alerts(), store.confirmed) == ([first, third], 12)
    assert store.has(2)
    assert not store.has(3)
