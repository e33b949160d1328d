"""Positions that users choose themselves, with a sequencer and without one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import ithaca
from ithaca.engines.corfu.sequencing.limits import ROW_POSITIONS, WRITE_AHEAD_ROWS
from ithaca.model.errors import (
    BatchTooLarge,
    EmptyPosition,
    InvalidInput,
    NoSuchOrderer,
    PositionTaken,
    SessionFenced,
    Trimmed,
)
from ithaca.testing import Cluster


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ithaca.ClusterLog]:
    with Cluster(tmp_path / "cluster", engine="corfu", shards=2) as cluster, ithaca.connect(cluster.bootstrap) as log:
        assert isinstance(log, ithaca.ClusterLog)
        yield log


def at(row: int) -> int:
    return 1 + row * ROW_POSITIONS


def test_positions_are_written_in_any_order(log: ithaca.ClusterLog) -> None:
    assert log.write(at(2), [b"c", b"d"], keys=[b"k", None]).position == at(2)
    assert log.tail() == at(3)
    assert log.append(b"e").position == at(3), "nobody who appends gets a position before it any more"
    assert log.write(at(0), [b"a"]).position == at(0), "those in between stay free"
    assert not log.fill(at(1))
    assert [record.value for record in log.read_range(1)] == [b"a", b"c", b"d", b"e"]
    assert log.read(at(2)).key == b"k"


def test_the_same_records_again_are_the_same(log: ithaca.ClusterLog) -> None:
    receipt = log.write(at(1), [b"a", b"b"])
    assert log.write(at(1), [b"a", b"b"]) == receipt


def test_what_is_read_where_nothing_is_names_what_follows(log: ithaca.ClusterLog) -> None:
    log.write(at(1), [b"a"])
    log.fill(at(0))
    for position in (at(0), at(0) + 1):
        with pytest.raises(EmptyPosition) as caught:
            log.read(position)
        assert caught.value.next == at(1)


def test_what_keeps_a_write_out_is_named(log: ithaca.ClusterLog) -> None:
    log.write(at(1), [b"a"])
    taken = log.append(b"b").position
    log.fill(at(0))
    for position, error in (
        (at(1), PositionTaken),
        (taken, PositionTaken),
        (at(0), EmptyPosition),
        (2, InvalidInput),
        (0, InvalidInput),
        (at(WRITE_AHEAD_ROWS + 3), InvalidInput),
        (1 << 63, InvalidInput),
    ):
        with pytest.raises(error):
            log.write(position, [b"other"])
    with pytest.raises(BatchTooLarge):
        log.write(at(5), [bytes(1 << 20)] * 65)
    log.trim_position(at(1))
    with pytest.raises(Trimmed):
        log.write(at(1), [b"other"])
    log.trim(log.tail())
    with pytest.raises(Trimmed):
        log.write(taken, [b"other"])
    assert log.tail() == at(3), "nothing that was refused has changed anything"


def test_appends_go_on_without_a_sequencer(log: ithaca.ClusterLog) -> None:
    session = log.session("s")
    positions = [log.append(b"0").position, session.append(b"1").position]
    assert log.admin.replace_sequencer(0) == 0
    with pytest.raises(NoSuchOrderer):
        log.admin.replace_sequencer(9)
    tail = log.tail()
    with pytest.raises(InvalidInput, match="without a sequencer"):
        log.write(tail + ROW_POSITIONS, [b"far"])
    positions += [log.write(tail, [b"2"]).position, session.append(b"3").position]
    positions += [pending.result().position for pending in [log.submit(b"%d" % n) for n in range(4, 8)]]
    newer = log.session("s")
    assert newer.next_seq == 3, "opening it again has ended the epoch, and so fenced the older handle"
    with pytest.raises(SessionFenced):
        session.append(b"late")
    positions.append(newer.append(b"8").position)
    with pytest.raises(PositionTaken):
        log.write(positions[-1], [b"other"])
    log.trim(positions[1])
    assert log.admin.replace_sequencer(1) == 1
    positions.append(log.append(b"9").position)
    assert positions == sorted(positions)
    values = [record.value for record in log.read_range("earliest")]
    assert sorted(values) == [b"%d" % n for n in range(1, 10)]
