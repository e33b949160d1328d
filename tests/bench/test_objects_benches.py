"""Tiny runs of the benches of state on the log: what is compared with what, and a picture of it."""

from pathlib import Path

import pytest
import typer

from ithaca.bench.objects.engines import engine_table
from ithaca.bench.objects.plot import draw
from ithaca.bench.objects.smr import SmrSettings, run_smr
from ithaca.bench.objects.store import StoreSettings, run_store
from ithaca.bench.objects.versions import VersionsSettings, run_versions
from ithaca.cli.bench.objects import parse_counts, parse_engines, parse_shares
from ithaca.cli.bench.options import FreshCluster
from ithaca.cluster.temporary import Shape
from ithaca.model.errors import ConfigError
from ithaca.model.limits import KIB


def quiet(text: str) -> None:
    """Progress that nobody looks at."""


def test_commands_are_compared_with_appends_and_starts_with_reading(tmp_path: Path) -> None:
    settings = SmrSettings(clients=2, replicas=(1, 2), seconds=0.05, rounds=2, start=500)
    report = run_smr(tmp_path / "bench", settings, quiet)
    contenders = report["contenders"]
    assert contenders["2 replicas"]["ratios"]["to"] == "log"
    assert contenders["start, snapshot"]["ratios"]["to"] == "start, read"
    assert all(figures["records_per_s"] > 0 for figures in contenders.values())
    assert list(tmp_path.iterdir()) == []
    held = report["memory"]["replica"]
    assert (held["early_commands"], held["commands"]) == (50, 500)
    assert held["growth_bytes"] == held["rss_anon_bytes"] - held["early_rss_anon_bytes"]
    draw(report, tmp_path / "smr.png")
    assert (tmp_path / "smr.png").read_bytes().startswith(b"\x89PNG")


def test_commands_in_flight(tmp_path: Path) -> None:
    report = run_smr(tmp_path, SmrSettings(clients=2, window=8, seconds=0.05, rounds=1), quiet)
    assert set(report["contenders"]) == {"log", "1 replica", "local reads", "fresh reads"}


def test_puts_are_compared_with_as_many_records(tmp_path: Path) -> None:
    settings = StoreSettings(keys=(1, 3), record_bytes=100, clients=(2,), space=10, seconds=0.05, rounds=1)
    contenders = run_store(tmp_path, settings, quiet)["contenders"]
    assert contenders["put 3"]["ratios"]["to"] == "append_many 3"
    assert {"get 1, fresh", "get 3, local"} <= contenders.keys()
    assert contenders["put 3"]["bytes_per_s"] == pytest.approx(100 * contenders["put 3"]["records_per_s"], rel=0.01)


def test_stores_by_clients_mixes_and_mirrors(tmp_path: Path) -> None:
    settings = StoreSettings(
        keys=(2,), record_bytes=100, clients=(1, 3), mix=(0.5, 0.95), mirrors=(1, 2), space=10, seconds=0.05, rounds=1
    )
    report = run_store(tmp_path / "bench", settings, quiet)
    contenders = report["contenders"]
    assert contenders["put 2, 1 client"]["ratios"]["to"] == "append_many 2, 1 client"
    assert contenders["mix 2, 0.95 gets, 3 clients"]["ratios"]["to"] == "put 2, 3 clients"
    assert contenders["local gets, 2 processes"]["ratios"]["to"] == "local gets, 1 process"
    assert contenders["local gets, 1 process"]["cpu_us_per_record"] > 0
    draw(report, tmp_path / "store.png")
    assert (tmp_path / "store.png").read_bytes().startswith(b"\x89PNG")


def test_engines_are_beside_each_other(tmp_path: Path) -> None:
    shape = Shape(replicas=1, orderers=1, segment_bytes=256 * KIB)
    settings = SmrSettings(shape, clients=2, seconds=0.05, rounds=1, engines=("scalog", "raft"))
    report = run_smr(tmp_path / "bench", settings, quiet)
    assert report["contenders"]["raft: 1 replica"]["ratios"]["to"] == "raft: log"
    assert report["engines"]["1 replica"]["raft"]["ratios"]["to"] == "scalog"
    assert "ratios" not in report["engines"]["1 replica"]["scalog"]
    rows = engine_table(report).row_count
    assert rows == len(report["engines"]) == len(report["contenders"]) / 2
    draw(report, tmp_path / "smr.png")
    assert (tmp_path / "smr.png").read_bytes().startswith(b"\x89PNG")


def test_versions_are_compared_with_plain_appends_and_reads(tmp_path: Path) -> None:
    """And on an engine without shards as it is."""
    shape = Shape(replicas=1, orderers=1, segment_bytes=256 * KIB)
    settings = VersionsSettings(
        shape, (2,), record_bytes=100, clients=2, seconds=0.05, rounds=1, engines=("raft", "scalog"), objects=5
    )
    report = run_versions(tmp_path, settings, quiet)
    contenders = report["contenders"]
    assert contenders["scalog: 2 shards, put"]["ratios"]["to"] == "scalog: 2 shards, append"
    assert contenders["scalog: 2 shards, get"]["ratios"]["to"] == "scalog: 2 shards, read"
    assert set(report["engines"]["1 shard, put"]) == {"raft"}
    assert engine_table(report).row_count == 8


@pytest.mark.parametrize("text", ["", "0", "1,", "x", "1,-2"])
def test_numbers_that_are_none(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_counts(text)


@pytest.mark.parametrize("text", ["", "1.5", "0.5,", "x", "-0.1", "nan"])
def test_shares_that_are_none(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_shares(text)


def test_engines_that_cannot_be_compared() -> None:
    assert parse_engines("raft, scalog,raft", FreshCluster()) == ("raft", "scalog")
    with pytest.raises(ConfigError, match="use one of"):
        parse_engines("rafd", FreshCluster())
    with pytest.raises(typer.BadParameter, match="leave --engine out"):
        parse_engines("raft", FreshCluster(engine="raft"))
    with pytest.raises(typer.BadParameter, match="leave --embedded out"):
        parse_engines("raft", FreshCluster(), embedded=True)
