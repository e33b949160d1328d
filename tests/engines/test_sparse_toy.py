"""A log with empty positions, from one end to the other: handles, iterations, tasks, plans and the checker."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines import sparse_toy

import ithaca
from ithaca.client.extents import Extent
from ithaca.engines import registry
from ithaca.engines.tasks import Scan, extents_of
from ithaca.model.engine import Feature
from ithaca.model.errors import EmptyPosition, NotWritten, Trimmed
from ithaca.model.interface import ClusterLog
from ithaca.model.records import KeyFilter
from ithaca.proof import payload
from ithaca.proof.checker import check
from ithaca.proof.history import AnyEvent, Append, Deliver, Final, Mark, Plan, Range, Read, Sub, Tail
from ithaca.testing import Cluster

PATIENCE_S = 60


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ClusterLog]:
    with (
        Cluster(tmp_path / "cluster", engine=sparse_toy.SparseToy.name) as cluster,
        ithaca.connect(cluster.bootstrap) as log,
    ):
        yield log


def fill(log: ClusterLog, batches: int) -> list[int]:
    """Batches of one to three records; their positions."""
    chance, places = random.Random(batches), list[int]()
    for _ in range(batches):
        count = chance.randint(1, 3)
        keys = [b"even" if (len(places) + n) % 2 == 0 else b"odd" for n in range(count)]
        places += log.append_many([b"%d" % (len(places) + n) for n in range(count)], keys=keys).positions
    return places


def test_it_is_not_dense_and_says_so() -> None:
    assert Feature.DENSE in registry.engine("toy").features
    assert Feature.DENSE not in registry.engine(sparse_toy.SparseToy.name).features


def test_what_cannot_be_read_is_told_apart(log: ClusterLog) -> None:
    places = fill(log, 9)
    tail = log.tail()
    assert places[-1] + 1 < tail  # there are empty positions behind the last record
    log.trim(places[2])
    for position in range(1, tail + 2):
        if position in places[2:]:
            assert log.read(position).value == b"%d" % places.index(position)
            continue
        kind = Trimmed if position < places[2] else EmptyPosition if position < tail else NotWritten
        with pytest.raises(kind) as caught:
            log.read(position)
        if isinstance(caught.value, EmptyPosition):
            assert caught.value.next == next((place for place in places if place > position), 0)


def test_who_waits_for_a_position_that_stays_empty_is_told(log: ClusterLog) -> None:
    position = log.tail()
    log.append(b"a")
    with pytest.raises(EmptyPosition):
        log.read(position, wait=PATIENCE_S)


def test_iterations_begin_and_end_at_empty_positions(log: ClusterLog) -> None:
    places = fill(log, 9)
    for start in range(1, log.tail() + 1):
        expected = [place for place in places if place >= start]
        assert [record.position for record in log.read_range(start)] == expected
        even = [place for place in expected if places.index(place) % 2 == 0]
        where = KeyFilter.equals(b"even")
        assert [record.position for record in log.read_range(start, where=where)] == even
        with log.subscribe(start) as subscription:
            found: list[int] = []
            while len(found) < len(expected):
                found += [record.position for record in subscription.poll(timeout=PATIENCE_S)]
            assert found == expected
    for stop in range(1, log.tail() + 1):
        assert [record.position for record in log.read_range(1, stop)] == [place for place in places if place < stop]


def test_tasks_divide_it_by_records(log: ClusterLog) -> None:
    places = fill(log, 42)
    extents = extents_of(log)
    assert extents is not None
    found = extents(1, log.tail(), records_max=10)
    assert [extent.start for extent in found] == [1, *places[10::10]]
    assert [extent.stop for extent in found] == [*places[10::10], log.tail()]
    assert sum(extent.records for extent in found) == len(places)
    assert max(extent.records for extent in found) == 10
    assert extents(1, log.tail(), records_max=10, count_max=2) == found[:2]
    assert extents(places[-1] + 1, log.tail(), records_max=10) == [Extent(places[-1] + 1, log.tail(), 0)]


def test_scans_pass_over_empty_positions(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", engine=sparse_toy.SparseToy.name) as cluster:
        with ithaca.connect(cluster.bootstrap) as log:
            places, tail = fill(log, 20), log.tail()
        with Scan(cluster.bootstrap, 1, tail, chunk_bytes=1) as scan:
            chunks = list(scan)
    assert [position for chunk in chunks for rows in chunk for position in rows.positions.tolist()] == places


def test_the_checker_judges_it(log: ClusterLog) -> None:
    """What happened, and with one record skipped by a reader."""
    events: list[AnyEvent] = [Plan(ok_min=1, dense=False)]
    held: dict[int, tuple[int, int]] = {}
    for number in range(12):
        receipt = log.append(payload.encode(7, number, 32))
        held[receipt.position] = (7, number)
        events.append(Append(id=(7, number), n=1, inv=4 * number, ret=4 * number + 1, st="ok", pos=receipt.position))
    tail = log.tail()
    events.append(Tail(inv=100, ret=101, n=tail))
    for position in range(1, tail):
        try:
            events.append(Read(position, 102, 103, payload.decode(log.read(position).value)))
        except EmptyPosition:
            events.append(Read(position, 102, 103, "empty"))
    rows = tuple((record.position, payload.decode(record.value)) for record in log.read_range(1))
    events += [Sub(1, 1), *(Deliver(1, 110, position, found) for position, found in rows), Mark(1, 120, tail)]
    events += [Range(104, 105, 1, tail, None, rows), Final("all", tuple((at, (found,)) for at, found in held.items()))]
    assert check(events).ok, check(events)
    skipped = rows[5][0]
    assert set(check([e for e in events if not (isinstance(e, Deliver) and e.pos == skipped)]).found) == {"dense"}


def test_planning_by_spark_leaves_out_what_is_empty(log: ClusterLog) -> None:
    pytest.importorskip("pyspark")
    from ithaca.spark.admission import admitted, size_of
    from ithaca.spark.planning import cut_counted

    places, extents = fill(log, 42), extents_of(log)
    tail = log.tail()
    assert extents is not None
    parts = cut_counted(1, tail, extents, min_parts=4, max_records=1000, shards=None)
    assert len(parts) >= 4
    assert (parts[0][0], parts[-1][1]) == (1, tail)
    counts = [sum(low <= place < high for place in places) for low, high in parts]
    assert sum(counts) == len(places)
    assert max(counts) - min(counts[:-1]) <= 1
    assert cut_counted(places[-1] + 1, tail, extents, min_parts=4, max_records=10, shards=None) == []

    def size(position: int) -> int:
        return size_of(log, position)

    stop = admitted(1, tail, records=7, size=size, byte_count=None, extents=extents)
    assert sum(place < stop for place in places) == 7
    stop = admitted(1, tail, records=None, size=lambda _: 10, byte_count=95, extents=extents)
    assert sum(place < stop for place in places) == 9
    assert admitted(places[-1] + 1, tail, records=5, size=size, byte_count=10, extents=extents) == tail
