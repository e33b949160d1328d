"""`ithaca publish`: all or nothing, and once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import ithaca, json_lines

from ithaca.testing import Cluster


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with Cluster(shards=2, replicas=1) as cluster:
        yield cluster.bootstrap


def test_files_are_published_together_and_once(bootstrap: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a\nb\n")
    two.write_bytes(b"c")
    ithaca("append", "-b", bootstrap, "before")
    command = ("publish", "-b", bootstrap, "--writer", "w", "--number", "7", str(two), str(one), "--key", "k")
    assert ithaca(*command).stdout == b"3 records at positions 2 to 4\n"
    assert ithaca(*command).stdout == b"3 records at positions 2 to 4\n"
    assert ithaca("read", "-b", bootstrap, "--format", r"%p %k %v\n").stdout == b"1  before\n2 k c\n3 k a\n4 k b\n"
    (told,) = json_lines(
        ithaca("publish", "-b", bootstrap, "-w", "w", "-n", "8", "--owner", "me", "--json", stdin=b"d\n").stdout
    )
    assert told == {"writer": "w", "key": 8, "owner": "me", "position": 5, "count": 1}
    assert ithaca("publish", "-b", bootstrap, "-w", "w", "-n", "9", stdin=b"").stdout.startswith(b"0 records")


def test_what_is_refused(bootstrap: str, tmp_path: Path) -> None:
    ithaca("publish", "-b", bootstrap, "-w", "w", "-n", "7", stdin=b"a\n")
    older = ithaca("publish", "-b", bootstrap, "-w", "w", "-n", "6", stdin=b"b\n", status=1).stderr
    assert b"key 7 by owner '' is its newest, with 1 record(s) from position 1 on" in older
    assert b"no prepared appends" in _embedded(tmp_path)
    assert ithaca("tail", "-b", bootstrap).stdout == b"first 1\ntail 2\n"
    assert b"ttl is 0.0" in ithaca("publish", "-b", bootstrap, "-w", "w", "-n", "8", "--ttl", "0", status=1).stderr
    ithaca("publish", "-b", bootstrap, "-n", "8", status=2)


def _embedded(tmp_path: Path) -> bytes:
    ithaca("append", "-p", str(tmp_path / "log"), "x")
    return ithaca("publish", "-p", str(tmp_path / "log"), "-w", "w", "-n", "1", stdin=b"a\n", status=1).stderr
