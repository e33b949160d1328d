"""`ithaca unit` and `ithaca sequencer`: units and who hands out positions are listed and changed."""

from pathlib import Path

from tests.cli.command import ithaca as run
from tests.cli.command import json_lines

import ithaca
from ithaca.cluster.temporary import Shape, temporary_cluster
from ithaca.testing import Cluster


def test_units_are_listed_added_replaced_and_rebuilt() -> None:
    with Cluster(engine="corfu", replicas=1, spares=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        where = ("-b", cluster.bootstrap)
        log.append(b"x")
        listed = json_lines(run("unit", "list", *where, "--json").stdout)
        assert [(each["unit"], each["set"], each["rows"]) for each in listed] == [(1, 0, 1), (2, None, 0)]
        assert "spare" in run("unit", "list", *where).stdout.decode()
        assert run("unit", "add", listed[1]["address"], *where).stdout == b"unit 2 was added as a spare\n"
        assert run("unit", "replace", "1", *where).stdout == b"unit 2 has taken the place of 1\n"
        assert run("unit", "rebuild", *where).stdout == b"every chain has all its units\n"
        assert "there is no unit 1" in run("unit", "replace", "1", *where, status=1).stderr.decode()
        assert "address" in run("unit", "add", *where, status=2).stderr.decode()
        assert log.read(1).value == b"x"


def test_units_of_a_directory_are_started_by_the_commands(tmp_path: Path) -> None:
    shape = Shape(1, 1, 1, engine="corfu")
    with temporary_cluster(tmp_path / "data", shape, lambda text: None) as cluster:
        here: list[str | Path] = ["--dir", cluster.directory]
        with ithaca.connect(cluster.bootstrap, timeout=60) as log:
            log.append(b"x")
            assert run("unit", "replace", "1", *here).stdout == b"unit 2 has taken the place of 1\n"
            assert run("unit", "add", "--set", "1", *here).stdout == b"set 1 was added, of 1 units\n"
            for value in (b"y", b"z"):
                log.append(value)
            units = {each.unit: each for each in log.admin.units()}
            assert 1 not in units, "its server may be a spare again, by another number"
            assert units[2].set == 0
            assert sorted(each.set for each in units.values() if each.set is not None) == [0, 1]
            assert [record.value for record in log.read_range(1)] == [b"x", b"y", b"z"]
            assert "there is no unit 99" in run("unit", "replace", "99", *here, status=1).stderr.decode()
            assert "address" in run("unit", "add", units[2].address, *here, status=2).stderr.decode()


def test_the_sequencer_is_replaced_and_left_out() -> None:
    with Cluster(engine="corfu", replicas=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        where = ("-b", cluster.bootstrap)
        assert b"nobody hands out positions" in run("sequencer", "replace", "none", *where).stdout
        log.append(b"x")
        assert run("sequencer", "replace", *where).stdout == b"orderer 1 hands out positions\n"
        assert "there is no orderer 7" in run("sequencer", "replace", "7", *where, status=1).stderr.decode()
        assert "is no orderer" in run("sequencer", "replace", "next", *where, status=2).stderr.decode()
        log.append(b"y")
        assert [record.value for record in log.read_range(1)] == [b"x", b"y"]


def test_other_engines_have_neither() -> None:
    with Cluster(replicas=1) as cluster:
        where = ("-b", cluster.bootstrap)
        assert "corfu" in run("unit", "list", *where, status=1).stderr.decode()
        assert "corfu" in run("sequencer", "replace", *where, status=1).stderr.decode()
