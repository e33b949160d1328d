"""What tasks read in chunks is what everybody reads, from files and from servers, in one order, with filters."""

from collections.abc import Callable

import pytest

from ithaca.engines.tasks import Scan
from ithaca.model.engine import EngineName
from ithaca.model.interface import Log
from ithaca.model.records import KeyFilter
from ithaca.testing import Cluster
from tests.conformance.engines import Engine

pytestmark = pytest.mark.shared_log

FILTERS = (None, KeyFilter.prefix(b"1"), KeyFilter.equals(b"7"), KeyFilter.part(0, 2))
READ_BY_FILES = ("scalog", "raft", "corfu")
"""Engines whose files programs on the same machine read."""

Found = list[tuple[int, bytes, bytes | None, int]]


@pytest.fixture
def bootstrap(engine: Engine, clusters: Callable[[EngineName], Cluster]) -> str:
    """Where a task finds the log."""
    if engine.attach is None:
        pytest.skip("a directory is read without a scan")
    return clusters(engine.cluster).bootstrap


def taken(scan: Scan) -> Found:
    found: Found = []
    for chunk in scan:
        for stretch in chunk:
            records = stretch.batch.records(0, stretch.shard, stretch.low, stretch.high)
            places = stretch.positions.tolist()
            found += [(at, each.value, each.key, stretch.shard) for at, each in zip(places, records, strict=True)]
    return found


@pytest.mark.parametrize("local", [True, False])
def test_a_scan_has_what_a_range_has(engine: Engine, bootstrap: str, log: Log, local: bool) -> None:
    first = log.append_many([b"first"] * 3, keys=[b"1"] * 3).position
    pending = [
        log.submit_many([b"%d of %d" % (row, number) for row in range(7)], keys=[b"%d" % (row + number)] * 7)
        for number in range(20)
        for row in range(2)
    ]
    for each in pending:
        each.result()
    stop = log.append(b"last", key=b"17").position
    log.append(b"behind it", key=b"1")
    for start in (first, first + 2):
        for where in FILTERS:
            wanted = [
                (each.position, each.value, each.key, each.shard) for each in log.read_range(start, stop, where=where)
            ]
            with Scan(bootstrap, start, stop, where=where, chunk_bytes=500, local=local) as scan:
                found = taken(scan)
                assert scan.is_local or not local or where is not None or engine.cluster not in READ_BY_FILES
                assert local or not scan.is_local
            assert found == wanted
            assert where is not None or len(found) == 20 * 2 * 7 + 3 + first - start


def test_a_scan_of_nothing_has_no_chunk(bootstrap: str, log: Log) -> None:
    position = log.append(b"here").position
    with Scan(bootstrap, position, position, chunk_bytes=500) as scan:
        assert taken(scan) == []
