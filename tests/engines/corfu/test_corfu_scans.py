"""Scans of units' files: the same records as over the network, whatever becomes of units and files meanwhile."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ithaca
from ithaca.engines.corfu.client.local_rows import LocalRows
from ithaca.engines.corfu.sequencing.limits import ROW_POSITIONS
from ithaca.engines.tasks import Scan, extents_of
from ithaca.model.limits import SEGMENT_BYTES_MIN
from ithaca.model.records import KeyFilter
from ithaca.testing import Cluster

BATCHES = 200
ROWS = 10
"""Records of a batch."""
SCAN = "ithaca.engines.corfu.client.scan"

Found = list[tuple[int, bytes, int]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """With segments so small that every lane has some."""
    cluster = Cluster(tmp_path / "cluster", engine="corfu", shards=2, replicas=2)
    cluster.file = replace(cluster.file, segment_bytes=SEGMENT_BYTES_MIN)
    with cluster:
        fill(cluster)
        yield cluster


def fill(cluster: Cluster, first: int = 0) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        pending = [
            log.submit_many(
                [b"%06d" % (first + ROWS * number + row) * 20 for row in range(ROWS)],
                keys=[b"%d" % row for row in range(ROWS)],
            )
            for number in range(BATCHES)
        ]
        for each in pending:
            each.result()


def taken(scan: Scan, chunks: int | None = None) -> Found:
    """Positions, values and shards, of so many chunks at most."""
    found: Found = []
    for number, chunk in enumerate(scan, 1):
        for stretch in chunk:
            records = stretch.batch.records(0, stretch.shard, stretch.low, stretch.high)
            places = stretch.positions.tolist()
            found += [(at, each.value, stretch.shard) for at, each in zip(places, records, strict=True)]
        if number == chunks:
            break
    return found


def told(cluster: Cluster, start: int = 0, stop: int = 0, where: KeyFilter | None = None) -> Found:
    with ithaca.connect(cluster.bootstrap) as log:
        records = log.read_range(start or log.first(), stop or None, where=where)
        return [(record.position, record.value, record.shard) for record in records]


def tail(cluster: Cluster) -> int:
    with ithaca.connect(cluster.bootstrap) as log:
        return log.tail()


def segments(cluster: Cluster) -> list[Path]:
    return sorted(cluster.directory.rglob("*.seg"))


def scan_of(cluster: Cluster, start: int, stop: int, **options: Any) -> Scan:
    return Scan(cluster.bootstrap, start, stop, **{"chunk_bytes": 5000, **options})


@pytest.mark.parametrize("local", [True, False])
def test_files_have_what_the_network_has(cluster: Cluster, local: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[LocalRows] = []

    class Kept(LocalRows):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            kept.append(self)

    monkeypatch.setattr(f"{SCAN}.LocalRows", Kept)
    wanted, end = told(cluster), tail(cluster)
    assert len(wanted) == ROWS * BATCHES
    assert len(segments(cluster)) > 8, "lanes have several"
    middle = wanted[ROWS * BATCHES // 2 + 3][0]
    for start, stop in ((1, end), (1, 2), (3, 7), (5, ROW_POSITIONS), (middle, end - 5), (middle, middle + 1)):
        with scan_of(cluster, start, stop, local=local) as scan:
            assert scan.is_local is local
            assert taken(scan) == [each for each in wanted if start <= each[0] < stop]
            assert scan.is_local is local
    assert len(kept) == (6 if local else 0)
    assert [len(each._open) for each in kept] == [0] * len(kept), "lanes that were read to their end are let go"


def test_filters_and_shards_are_chosen_from_files_as_well(cluster: Cluster) -> None:
    wanted, end = told(cluster), tail(cluster)
    for where in (KeyFilter.prefix(b"1"), KeyFilter.equals(b"7"), KeyFilter.part(0, 3)):
        with scan_of(cluster, 4, end, where=where) as scan:
            found = taken(scan)
            assert scan.is_local
            assert found == told(cluster, 4, end, where)
            assert 0 < len(found) < len(wanted)
    for local in (True, False):
        with scan_of(cluster, 1, end, shards=frozenset({1}), local=local) as scan:
            assert taken(scan) == [each for each in wanted if each[2] == 1]
            assert scan.is_local is local


@pytest.mark.parametrize("elsewhere", [False, True])
def test_records_are_counted_in_files_as_over_the_network(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    wanted = told(cluster)
    if elsewhere:
        monkeypatch.setattr(f"{SCAN}.machine_name", lambda: "another")
    with ithaca.connect(cluster.bootstrap) as log:
        extents = extents_of(log)
        assert extents is not None
        found = extents(5, log.tail(), records_max=300)
        assert [each.records for each in found] == [300] * 6 + [ROWS * BATCHES - 4 - 1800]
        for extent in found:
            assert extent.records == sum(extent.start <= each[0] < extent.stop for each in wanted)
        assert extents(5, log.tail(), records_max=300, count_max=2) == found[:2]
        (of_one,) = extents(1, log.tail(), records_max=1 << 20, shards=frozenset({1}))
        assert of_one.records == sum(each[2] == 1 for each in wanted)


def test_what_is_appended_later_is_not_seen_and_disturbs_nobody(cluster: Cluster) -> None:
    wanted, end = told(cluster), tail(cluster)
    with scan_of(cluster, 1, end, chunk_bytes=2000) as scan:
        found = taken(scan, 3)
        fill(cluster, first=ROWS * BATCHES)
        assert found + taken(scan) == wanted
        assert scan.is_local


def test_holes_filled_rows_and_rows_that_were_trimmed_have_no_records(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        chosen = log.write(log.tail() + 3 * ROW_POSITIONS, [b"chosen"])
        log.append(b"behind it")
        log.fill(chosen.position - ROW_POSITIONS)
        log.trim_position(1 + 5 * ROW_POSITIONS)
        log.trim_position(1 + 20 * ROW_POSITIONS, 1 + 30 * ROW_POSITIONS)
        wanted, end = told(cluster), log.tail()
    assert len(wanted) == ROWS * (BATCHES - 11) + 2
    with scan_of(cluster, 1, end) as scan:
        assert taken(scan) == wanted
        assert scan.is_local


def test_a_row_that_nobody_wrote_is_mended_over_the_network(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        log.write(log.tail() + 2 * ROW_POSITIONS, [b"chosen"])
        end = log.tail()
    with scan_of(cluster, 1, end) as scan:
        assert scan.is_local
        found = taken(scan)
        assert not scan.is_local
    assert found == told(cluster)
    assert found[-1][1] == b"chosen"
    with scan_of(cluster, 1, end) as scan:
        assert taken(scan) == found
        assert scan.is_local, "the rows before it are junk by now"


@pytest.mark.parametrize("harm", ["damaged", "gone"])
def test_files_that_cannot_be_read_any_more_are_gone_on_with_over_the_network(cluster: Cluster, harm: str) -> None:
    """The units have it in memory."""
    wanted, end = told(cluster), tail(cluster)
    with scan_of(cluster, 1, end) as scan:
        found = taken(scan, 3)
        for path in segments(cluster):
            if harm == "gone":
                path.rename(path.with_suffix(".away"))
                os.truncate(path.with_suffix(".away"), 0)
            else:
                data = bytearray(path.read_bytes())
                for at in range(2048, len(data), 512):
                    data[at] ^= 0xFF
                path.write_bytes(data)
        found += taken(scan)
        assert not scan.is_local
    assert found == wanted


def test_what_was_trimmed_before_is_said_by_the_network(cluster: Cluster) -> None:
    wanted, end = told(cluster), tail(cluster)
    before = wanted[ROWS + 4][0]
    with ithaca.connect(cluster.bootstrap) as log:
        log.trim(before)  # in the middle of a row
    with scan_of(cluster, 1, end) as scan, pytest.raises(ithaca.Trimmed):
        taken(scan)
    with scan_of(cluster, before, end) as scan:
        assert taken(scan) == wanted[ROWS + 4 :]
        assert scan.is_local


def test_what_is_trimmed_meanwhile_is_told_where_its_files_are_gone(cluster: Cluster) -> None:
    wanted, end = told(cluster), tail(cluster)
    with scan_of(cluster, 1, end) as scan:
        taken(scan, 1)
        for path in segments(cluster):
            os.truncate(path, 0)
        with ithaca.connect(cluster.bootstrap) as log:
            log.trim(wanted[-ROWS][0])
        with pytest.raises(ithaca.Trimmed):
            taken(scan)


def test_a_scan_goes_on_through_a_new_epoch(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        log.admin.replace_sequencer()
    fill(cluster, first=ROWS * BATCHES)
    wanted, end = told(cluster), tail(cluster)
    with scan_of(cluster, 1, end) as scan:
        found = taken(scan, 3)
        with ithaca.connect(cluster.bootstrap) as log:
            log.admin.replace_sequencer()
        assert found + taken(scan) == wanted
        assert scan.is_local


def test_a_reader_elsewhere_reads_no_files(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{SCAN}.machine_name", lambda: "another")
    with scan_of(cluster, 1, tail(cluster)) as scan:
        assert not scan.is_local
        assert taken(scan) == told(cluster)


def test_a_directory_of_the_same_name_that_is_another_is_not_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{SCAN}.place_of", lambda path: (path, 1, 1))
    with scan_of(cluster, 1, tail(cluster)) as scan:
        assert not scan.is_local
        assert taken(scan) == told(cluster)
