"""`ithaca store get|put|cas|mirror`."""

import sqlite3
from pathlib import Path

import pytest
from tests.cli.command import ithaca, json_lines
from typer.testing import CliRunner

import ithaca as library
from ithaca.cli.store import app
from ithaca.objects import replicate
from ithaca.testing import Cluster


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log with a store of three keys."""
    ithaca("store", "put", "-p", tmp_path / "log", "stock/7=3", "stock/8=0", "price/7=20")
    return tmp_path / "log"


def test_get(path: Path) -> None:
    assert ithaca("store", "get", "-p", path, "stock/7", "price/7").stdout == b"stock/7\t3\nprice/7\t20\n"
    assert ithaca("store", "get", "-p", path, "--prefix", "stock/").stdout == b"stock/7\t3\nstock/8\t0\n"
    assert ithaca("store", "get", "-p", path, "price/7", "--raw").stdout == b"20"
    done = ithaca("store", "get", "-p", path, "stock/7", "none", status=1)
    assert done.stdout == b"stock/7\t3\n"
    assert b"there is no none" in done.stderr
    assert json_lines(ithaca("store", "get", "-p", path, "--prefix", "p", "--json").stdout) == [
        {"key": "price/7", "value": "20"}
    ]


def test_put_deletes_and_takes_files(path: Path, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\xff\x00")
    (position,) = json_lines(
        ithaca(
            "store", "put", "-p", path, f"p=@{tmp_path / 'picture'}", "q=@@home", "--delete", "stock/8", "--json"
        ).stdout
    )
    assert position["keys"] == 3
    assert ithaca("store", "get", "-p", path, "p", "--raw").stdout == b"\xff\x00"
    assert ithaca("store", "get", "-p", path, "q").stdout == b"q\t@home\n"
    ithaca("store", "get", "-p", path, "stock/8", status=1)
    before = str(position["position"] - 1)
    assert ithaca("store", "get", "-p", path, "stock/8", "--as-of", before).stdout == b"stock/8\t0\n"


def test_cas(path: Path) -> None:
    ithaca("store", "cas", "-p", path, "--expect", "price/7=20", "--absent", "lock", "price/7=18", "lock=me")
    done = ithaca("store", "cas", "-p", path, "--expect", "price/7=20", "price/7=1", "--json", status=1)
    assert json_lines(done.stdout) == [{"done": False}]
    assert b"nothing was put" in done.stderr
    assert ithaca("store", "get", "-p", path, "price/7", "lock").stdout == b"price/7\t18\nlock\tme\n"


def test_mirror(path: Path, tmp_path: Path) -> None:
    (said,) = json_lines(ithaca("store", "mirror", "-p", path, "--state", tmp_path / "m.db", "--once", "--json").stdout)
    assert said["is_current"]
    assert said["position"] >= said["tail"]
    ithaca("store", "put", "-p", path, "new=1")
    assert b", current, " in ithaca("store", "mirror", "-p", path, "--state", tmp_path / "m.db", "--once").stdout
    file = sqlite3.connect(tmp_path / "m.db")
    keys = [key for (key,) in file.execute("SELECT key FROM entries ORDER BY key")]
    file.close()
    assert keys == [b"new", b"price/7", b"stock/7", b"stock/8"]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["get"], "which keys?"),
        (["get", "a", "--prefix", "b"], "which keys?"),
        (["get", "a", "--json", "--raw"], "exclude each other"),
        (["get", "a", "--as-of", "x"], "is not a position"),
        (["put"], "nothing to put"),
        (["put", "a"], "has no ="),
        (["put", "a=1", "--delete", "a"], "put and deleted"),
        (["cas", "a=1"], "what is expected?"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], hint: str) -> None:
    done = CliRunner().invoke(app, [arguments[0], "-p", str(tmp_path), *arguments[1:]], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert hint in " ".join(done.output.split())


def test_a_log_that_holds_something_else(path: Path, tmp_path: Path) -> None:
    class Other:
        def nothing(self) -> None: ...

    with library.open(path) as log, replicate(log, Other, name="other") as other:
        other.propose(Other.nothing)
    done = ithaca("store", "get", "-p", path, "--name", "other", "a", status=1)
    assert b"'other' in this log is a Other" in done.stderr
    (tmp_path / "text").write_text("no database " * 50)
    assert (
        b"delete it to build it again"
        in ithaca("store", "mirror", "-p", path, "--state", tmp_path / "text", "--once", status=1).stderr
    )
    assert b"no log" in ithaca("store", "get", "-p", tmp_path / "nowhere", "a", status=1).stderr.lower()


def test_on_a_cluster() -> None:
    with Cluster() as cluster:
        ithaca("store", "put", "-b", cluster.bootstrap, "a=1", "b=2")
        assert ithaca("store", "get", "-b", cluster.bootstrap, "--prefix", "").stdout == b"a\t1\nb\t2\n"
