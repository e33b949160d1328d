"""Measurements of the engine raft: what is compared, and that each of them comes to its end."""

from pathlib import Path

import pytest
from tests.engines.raft.batches import batch_of

from ithaca.bench.raft.absent import CatchUpSettings, FailoverSettings, run_catch_up, run_failover
from ithaca.bench.raft.beside import BesideSettings, run_beside
from ithaca.bench.raft.plot import draw
from ithaca.bench.raft.sharing import VariantSettings, run_commits, run_sharing
from ithaca.bench.raft.variants import NaiveFiles
from ithaca.engines.raft.replog.entries import encode_entry, range_of
from ithaca.engines.raft.storage.shared_log import SEED, SharedLogFiles
from ithaca.raft.events import Persist
from ithaca.raft.messages import Entry, EntryKind, HardState, first_state
from ithaca.sim.disk import SimDisk


def quiet(text: str) -> None:
    """Nobody has to know."""


@pytest.mark.parametrize(("files", "times"), [(SharedLogFiles(), 1), (NaiveFiles(), 2)])
def test_the_naive_store_writes_payloads_twice(files: SharedLogFiles, times: int) -> None:
    disk, text = SimDisk(), b"payload" * 100
    disk.make_directory("/server")
    store = files.create(disk, "/server", first_state(1, 2, 3))
    batch = batch_of(1, 1, 1, text=text).placed(0, SEED)
    store.staging.put(1, 1, [batch])
    entry = Entry(1, 1, EntryKind.PAYLOAD, encode_entry(range_of([batch])))
    store.persist(Persist(1, HardState(1, 1), None, (entry,)))
    kept = [disk.open(path).read(0, disk.open(path).size()) for path in ("/server/raft.log", *_segments(disk))]
    assert sum(text in each for each in kept) == times
    assert store.read(0, 1)[0].count == 1


def _segments(disk: SimDisk) -> list[str]:
    return [f"/server/lane/{name}" for name in disk.list("/server/lane") if name.endswith(".seg")]


def test_a_leader_that_is_killed_is_measured(tmp_path: Path) -> None:
    report = run_failover(tmp_path, FailoverSettings(rounds=1, record_bytes=100), quiet)
    assert len(report["back_after_ms"]) == 1
    assert report["median_ms"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_report_is_drawn(tmp_path: Path) -> None:
    variants = {"shared": {"bytes_per_s": 2e6, "written": 1.0}, "naive": {"bytes_per_s": 1e6, "written": 2.0}}
    point = {"record_bytes": 512, "batch": 64, "variants": variants}
    draw({"bench": "raft sharing", "points": [point]}, tmp_path / "sharing.png")
    assert (tmp_path / "sharing.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.campaign
def test_all_of_them_come_to_their_end(tmp_path: Path) -> None:
    tiny = VariantSettings((100,), (8,), seconds=0.3, rounds=1)
    for run in (run_sharing, run_commits):
        (point,) = run(tmp_path, tiny, quiet)["points"]
        assert all(each["written"] > 1 for each in point["variants"].values())
    beside = run_beside(tmp_path, BesideSettings(100, 8, seconds=0.3, rounds=1), quiet)
    assert beside["lone"]["ratios"]["rate"] > 0
    caught_up = run_catch_up(tmp_path, CatchUpSettings(1 << 20, seconds=0.3), quiet)
    assert caught_up["share"] > 0
