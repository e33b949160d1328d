"""`ithaca session` and `ithaca writer`: names are listed, and go."""

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
