"""The demos with few records: every claim checked, nothing left behind, and their checks can fail."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.cli.command import COMMAND, environment, ithaca
from tests.cli.processes import left_behind
from tests.engines import toy

import ithaca as library
from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.demo_cluster import ClusterStory, run_cluster_demo
from ithaca.apps.demo_embedded import run_embedded_demo
from ithaca.apps.transactions import transaction
from ithaca.model.engine import DEFAULT_ENGINE

RECORDS = 3000
MARKER = "DEMO_TEST"
"""A variable that every process of a demo inherits, so that those which are left can be found."""


def start(directory: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, "demo", *arguments, "--dir", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment() | {MARKER: str(directory)},
        start_new_session=True,
    )


@pytest.mark.parametrize("kind", ["cluster", "embedded"])
def test_the_story_holds_and_leaves_nothing_behind(tmp_path: Path, kind: str) -> None:
    with start(tmp_path, kind, "--records", str(RECORDS)) as demo:
        output, _ = demo.communicate(timeout=120)
    assert demo.returncode == 0, output
    expected = (
        ["nothing acknowledged was lost", "same positions, nothing doubled"]
        if kind == "embedded"
        else ["exactly once", "was started again by the supervisor", "no process is left", "the kill until appends"]
    )
    for claim in [*expected, "both followers saw exactly what the log holds", f"{RECORDS:,}"]:
        assert claim in output
    assert left_behind(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_kept_log_holds_every_transaction_once(tmp_path: Path) -> None:
    ithaca("demo", "embedded", "--dir", tmp_path, "--records", "1000", "--keep")
    (home,) = tmp_path.iterdir()
    with library.open(home / "log", mode="r") as log, log.read_range(1) as records:
        assert [(record.key, record.value) for record in records] == [transaction(n) for n in range(1, 1001)]


@pytest.mark.parametrize(
    ("kind", "begun", "number", "status"),
    [
        ("cluster", "servers are up", signal.SIGINT, 130),
        ("cluster", "servers are up", signal.SIGTERM, 143),
        ("embedded", "a producer appends", signal.SIGINT, 130),
    ],
    ids=["cluster, INT", "cluster, TERM", "embedded, INT"],
)
def test_a_signal_ends_every_process(
    tmp_path: Path, kind: str, begun: str, number: signal.Signals, status: int
) -> None:
    with start(tmp_path, kind, "--records", "10000000") as demo:
        assert demo.stdout is not None
        while begun not in demo.stdout.readline():
            assert demo.poll() is None
        if number == signal.SIGINT:  # as a terminal does
            os.killpg(demo.pid, number)
        else:
            os.kill(demo.pid, number)
        output, _ = demo.communicate(timeout=60)
    assert demo.returncode == status, output
    assert "Traceback" not in output
    assert left_behind(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_an_embedded_checker_that_expects_other_transactions_says_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The processes are spawned and know nothing of this: they produce and follow what they always do.
    monkeypatch.setattr("ithaca.apps.demo_embedded.transaction", lambda number: (b"key", b"other"))
    assert run_embedded_demo(1000, tmp_path, keep=False) is False
    assert "FAILED: position 1 holds" in capsys.readouterr().out


def test_a_claim_that_does_not_hold_fails_the_demo_of_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def tell(story: ClusterStory) -> None:
        raise DemoFailed("a record is missing")

    monkeypatch.setattr(ClusterStory, "tell", tell)  # how claims are checked: tests/apps
    assert run_cluster_demo(1000, tmp_path, keep=False, engine=DEFAULT_ENGINE) is False
    assert "FAILED: a record is missing" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_cannot_do_what_the_demo_is_about_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(library.Unsupported, match=f"no sessions: use a cluster with the engine .*{DEFAULT_ENGINE}"):
        run_cluster_demo(1000, tmp_path, keep=False, engine=toy.Toy.name)
    said = ithaca("demo", "cluster", "--engine", "scalogg", "--dir", tmp_path, status=1).stderr.decode()
    assert "the engine 'scalogg' is not in this version" in said
    assert "scalog" in said
    assert list(tmp_path.iterdir()) == []


def test_a_log_in_a_directory_has_no_engine() -> None:
    assert "leave --engine out" in ithaca("demo", "embedded", "--engine", "scalog", status=2).stderr.decode()


@pytest.mark.parametrize("records", ["0", "999", "many"])
def test_wrong_usage(records: str) -> None:
    assert "--records" in ithaca("demo", "--records", records, status=2).stderr.decode()


def test_a_demo_that_there_is_not() -> None:
    assert "marketplace" in ithaca("demo", "casino", status=2).stderr.decode()


@pytest.mark.parametrize("kind", ["pipeline", "trading"])
def test_without_java_it_is_said_before_anything_is_started(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("pyspark")
    done = ithaca("demo", kind, "--no-plot", "--dir", tmp_path, status=1, env={"JAVA_HOME": str(tmp_path)})
    said = done.stderr.decode()
    assert f"Spark needs Java 17 or newer, and JAVA_HOME, {tmp_path}, has none" in said
    assert "ithaca demo cluster" in said
    assert list(tmp_path.iterdir()) == []
