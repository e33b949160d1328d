"""`ithaca session`, `ithaca writer` and `ithaca consumer`: names are listed, and go."""

from pathlib import Path

from tests.cli.command import ithaca as run
from tests.cli.command import json_lines

import ithaca
from ithaca.testing import Cluster


def test_sessions_are_listed_and_expired() -> None:
    with Cluster(replicas=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        where = ("-b", cluster.bootstrap)
        log.session("loader").append(b"x")
        log.session("importer")
        log.append(b"y")
        listed = json_lines(run("session", "list", *where, "--json").stdout)
        assert [(each["name"], each["epoch"], each["lane"]) for each in listed] == [
            ("loader", 1, "0-0-1"),
            ("importer", 1, "0-0-1"),
        ]
        assert "loader" in run("session", "list", *where).stdout.decode()
        assert run("session", "expire", "loader", *where).stdout == b"session loader has expired\n"
        assert "there is no session 'loader'" in run("session", "expire", "loader", *where, status=1).stderr.decode()
        assert [each.name for each in log.admin.sessions()] == ["importer"]


def test_writers_are_listed_and_forgotten() -> None:
    with Cluster(replicas=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        where = ("-b", cluster.bootstrap)
        log.publish(7, [log.prepare([b"a", b"b"])], writer="nightly", owner="me")
        (listed,) = json_lines(run("writer", "list", *where, "--json").stdout)
        idle_s = listed.pop("idle_s")
        assert 0 <= idle_s < 60
        assert listed == {"writer": "nightly", "key": 7, "owner": "me", "position": 1, "count": 2}
        assert "nightly" in run("writer", "list", *where).stdout.decode()
        assert run("writer", "forget", "nightly", *where).stdout == b"writer nightly is forgotten\n"
        assert "no writer 'nightly'" in run("writer", "forget", "nightly", *where, status=1).stderr.decode()
        assert log.admin.writers() == ()


def test_consumers_of_a_directory_are_listed_moved_and_deleted(tmp_path: Path) -> None:
    where = ("-p", str(tmp_path / "log"))
    with ithaca.open(tmp_path / "log") as log:
        log.append_many([b"a", b"b", b"c"])
        log.consumer("billing")
        (listed,) = json_lines(run("consumer", "list", *where, "--json").stdout)
        assert (listed["name"], listed["position"], listed["lag_records"]) == ("billing", 1, 3)
        assert 3 <= listed["lag_bytes"] < 300
    assert "3 records, about " in run("consumer", "list", *where).stdout.decode()
    assert run("follow", *where, "--consumer", "billing", "-n", "2", "--raw").stdout == b"ab"
    assert "position 3, 1 records" in run("consumer", "show", "billing", *where).stdout.decode()
    assert run("consumer", "reset", "billing", "2", *where).stdout == b"consumer billing goes on at 2\n"
    assert run("follow", *where, "--consumer", "billing", "--timeout", "0", "--raw").stdout == b"bc"
    assert "the tail is 4" in run("consumer", "reset", "billing", "9", *where, status=1).stderr.decode()
    assert run("consumer", "delete", "billing", *where).stdout == b"consumer billing is deleted\n"
    for command in (("show", "billing"), ("delete", "billing"), ("reset", "billing", "earliest")):
        assert "no consumer 'billing'" in run("consumer", *command, *where, status=1).stderr.decode()


def test_consumers_of_a_cluster_are_listed() -> None:
    with Cluster(replicas=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append(b"a")
        log.consumer("billing")
        (listed,) = json_lines(run("consumer", "list", "-b", cluster.bootstrap, "--json").stdout)
        assert (listed["name"], listed["position"], listed["lag_records"]) == ("billing", 1, 1)


def test_groups_are_shown_with_their_members_and_followed(tmp_path: Path) -> None:
    with Cluster(engine="raft") as cluster, ithaca.connect(cluster.bootstrap) as log:
        where = ("-b", cluster.bootstrap)
        log.append_many([b"a", b"b"], keys=[b"x", b"y"])
        with log.consumer("billing", group=True, parts=2):
            assert "2 parts" in run("consumer", "list", *where).stdout.decode()
            shown = run("consumer", "show", "billing", *where).stdout.decode()
            assert "parts 0, 1, heard of" in shown
            assert "part 1: position 1, 2 positions behind" in shown
            told = json_lines(run("consumer", "show", "billing", *where, "--json").stdout)
            assert (told[0]["positions"], told[1]["parts"]) == ([1, 1], [0, 1])
        followed = run("follow", *where, "--consumer", "billing", "--group", "-n", "2", "--raw").stdout
        assert followed == b"ab"
        assert [each.positions for each in log.consumers()] == [(3, 3)]
    assert "--consumer" in run("follow", "-p", str(tmp_path), "--group", status=2).stderr.decode()
    with ithaca.open(tmp_path / "log") as directory, directory.consumer("billing", group=True, parts=2):
        assert "part 1: position 1" in run("consumer", "show", "billing", "-p", str(tmp_path / "log")).stdout.decode()
