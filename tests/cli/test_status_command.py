"""`ithaca status`: how long servers run, what they hold, what is free, how far they are behind, what comes in."""

import doctest
import json
import os
import threading
from pathlib import Path

from tests.cli.command import ithaca as command

import ithaca
from ithaca.cli.cluster import status
from ithaca.cluster import vitals
from ithaca.testing import Cluster


def test_the_examples_hold() -> None:
    for module in (status, vitals):
        found = doctest.testmod(module)
        assert found.attempted
        assert not found.failed


def test_what_a_directory_takes_counts_blocks(tmp_path: Path) -> None:
    (tmp_path / "lanes").mkdir()
    (tmp_path / "lanes" / "one").write_bytes(bytes(100_000))
    (tmp_path / "two").touch()
    os.truncate(tmp_path / "two", 1 << 30)
    assert 100_000 <= vitals.stored_bytes(tmp_path) < 1 << 20
    assert vitals.stored_bytes(tmp_path / "nowhere") == 0


def test_a_server_that_was_started_again_has_no_rates() -> None:
    early = {"process_start_time_seconds": 100.0, "ithaca_replica_received_bytes_total": 10.0}
    assert vitals.vitals(early | {"process_start_time_seconds": 101.0}, 102.0, early, 1.0).bytes_per_s is None


def test_what_servers_hold_and_take_in_is_shown() -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append(bytes(1 << 20))
        plain = command("status", "-b", cluster.bootstrap).stdout.decode()
        assert all(word in plain for word in ("uptime", "stored", "free", "behind"))
        assert "records/s" not in plain
        assert "durable" not in plain
        ended = threading.Event()

        def feed() -> None:
            while not ended.is_set():
                log.append(bytes(1000))

        feeding = threading.Thread(target=feed)
        feeding.start()
        said = command("status", "-b", cluster.bootstrap, "--rates", "--json").stdout
        ended.set()
        feeding.join()
        table = command("status", "-b", cluster.bootstrap, "--lanes", "--rates").stdout.decode()
    assert "records/s" in table
    assert "0-0-1  open" in table
    _, *replicas = json.loads(said)["servers"]
    for replica in replicas:
        assert replica["uptime_s"] >= 0
        assert replica["stored_bytes"] is None, "only who has the directories at hand can say"
        assert replica["free_bytes"] > 0
        assert replica["memory_bytes"] > 0
        assert replica["behind"] < 1000
        assert replica["records_per_s"] > 0
        assert replica["bytes_per_s"] > 1000
