"""Backups, restores and copies: what comes out is what went in, once, whatever ended the work on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import ithaca
from ithaca.archive import copying
from ithaca.archive.backup import Backup, back_up, verify_backup
from ithaca.archive.copying import Copied, copy_log, restore
from ithaca.archive.folder import chunks
from ithaca.archive.places import place_of
from ithaca.archive.progress import Done
from ithaca.archive.salvaging import salvage
from ithaca.engines import registry
from ithaca.model.engine import Feature
from ithaca.model.errors import FormatTooNew, InvalidInput, NoSuchLog, Trimmed
from ithaca.model.limits import PIECE_BYTES_MIN
from ithaca.testing import Cluster

Row = tuple[int, bytes, bytes | None]


class Killed(Exception):
    """Somebody has ended the work."""


def fill(log: ithaca.Log, seed: int, batches: int = 30) -> None:
    random = Random(seed)
    for number in range(batches):
        count = random.randint(1, 4)
        keys = [random.choice((None, b"k%d" % row)) for row in range(count)]
        log.append_many([b"%d %d %s" % (number, row, b"x" * random.randint(0, 90)) for row in range(count)], keys=keys)


def rows(log: ithaca.Log) -> list[Row]:
    return [(record.position, record.value, record.key) for record in log.read_range("earliest")]


def dying(random: Random, calls: int) -> Callable[[Done], None]:
    """Ends the work at one of the first calls."""
    left = random.randint(1, calls)

    def advance(done: Done) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    return advance


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "GROUP_RECORDS", 7)


@pytest.mark.parametrize("seed", range(3))
def test_a_backup_that_is_ended_again_and_again_is_whole_at_last(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    with ithaca.open(tmp_path / "log", durability="os") as log:
        fill(log, seed)
        for _ in range(6):
            try:
                back_up(log, tmp_path / "backup", dying(random, 12), chunk_bytes=500)
            except Killed:
                assert list(verify_backup(tmp_path / "backup")) == []
            fill(log, seed + 100, 2)
        made = back_up(log, tmp_path / "backup", chunk_bytes=500)
        assert (made.first, made.stop) == (1, log.tail())
        assert list(verify_backup(tmp_path / "backup")) == []
        expected = rows(log)
    assert chunks(place_of(tmp_path / "backup"))[0].start == 1
    with ithaca.open(tmp_path / "again", durability="os") as log:
        assert restore(tmp_path / "backup", log) == Copied(len(expected), len(expected))
        assert rows(log) == expected


def test_the_rest_of_a_batch_whose_values_are_large_is_kept(tmp_path: Path) -> None:
    """Such values are not copied into the batch that is built of what a trim has left."""
    with ithaca.open(tmp_path / "log", durability="os") as log:
        log.append_many([b"trimmed", bytes(PIECE_BYTES_MIN), b"1" * PIECE_BYTES_MIN, b"2" * 2 * PIECE_BYTES_MIN])
        log.trim(2)
        back_up(log, tmp_path / "backup")
        assert list(verify_backup(tmp_path / "backup")) == []
        kept = rows(log)
    with ithaca.open(tmp_path / "restored", durability="os") as log:
        restore(tmp_path / "backup", log, renumber=True)
        assert [row[1:] for row in rows(log)] == [row[1:] for row in kept]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(3))
def test_a_restore_that_is_ended_goes_on_at_the_same_positions(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    with ithaca.open(tmp_path / "log", durability="os") as log:
        fill(log, seed)
        back_up(log, tmp_path / "backup", chunk_bytes=300)
        expected = rows(log)
    for _ in range(4):
        with ithaca.open(tmp_path / "again", durability="os") as log, pytest.raises(Killed):
            restore(tmp_path / "backup", log, dying(random, 2))
    with ithaca.open(tmp_path / "again", durability="os") as log:
        assert restore(tmp_path / "backup", log).records == len(expected)
        assert rows(log) == expected
        assert restore(tmp_path / "backup", log) == Copied(len(expected), 0)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "engine", [name for name in registry.names() if Feature.SESSIONS in registry.engine(name).features]
)
def test_from_a_directory_to_a_cluster_and_back(tmp_path: Path, engine: str) -> None:
    random = Random(engine)
    with Cluster(engine=engine) as cluster, ithaca.open(tmp_path / "log", durability="os") as source:
        fill(source, 1)
        with ithaca.connect(cluster.bootstrap) as target:
            for _ in range(3):
                with pytest.raises(Killed):
                    copy_log(source, target, "log", dying(random, 3))
            copy_log(source, target, "log")
            fill(source, 2, 3)
            copy_log(source, target, "log")
            assert [row[1:] for row in rows(target)] == [row[1:] for row in rows(source)]
            back_up(target, tmp_path / "backup")
            expected = rows(target)
            with ithaca.open(tmp_path / "back", durability="os") as back:
                copy_log(target, back, cluster.bootstrap)
                assert [row[1:] for row in rows(back)] == [row[1:] for row in expected]
    assert list(verify_backup(tmp_path / "backup")) == []
    with ithaca.open(tmp_path / "restored", durability="os") as log:
        is_dense = [row[0] for row in expected] == list(range(1, len(expected) + 1))
        if not is_dense:
            with pytest.raises(InvalidInput, match="holds no record in the backup"):
                restore(tmp_path / "backup", log)
        restore(tmp_path / "backup", log, renumber=not is_dense)
        assert [row[1:] for row in rows(log)] == [row[1:] for row in expected]


@pytest.mark.usefixtures("small")
def test_a_cluster_of_two_shards_is_restored_at_the_same_positions(tmp_path: Path) -> None:
    with Cluster(shards=2) as cluster, ithaca.connect(cluster.bootstrap, shard_policy="round_robin") as source:
        fill(source, 7)
        back_up(source, tmp_path / "backup", chunk_bytes=500)
        expected = rows(source)
        assert {record.shard for record in source.read_range("earliest")} == {0, 1}
    with Cluster(shards=2) as cluster:
        with ithaca.connect(cluster.bootstrap) as target, pytest.raises(Killed):
            restore(tmp_path / "backup", target, dying(Random(7), 4))
        with ithaca.connect(cluster.bootstrap) as target:
            assert restore(tmp_path / "backup", target).records == len(expected)
            assert rows(target) == expected


def killed_and_finished(begun: Path, *arguments: str) -> dict[str, int]:
    """Run a command of which two runs are killed at a random point after they began; what the last one says."""
    command = [sys.executable, "-m", "ithaca", *arguments, "--json"]
    random = Random(5)
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not begun.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.15))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    said: dict[str, int] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return said


def test_work_of_processes_that_are_killed_has_every_record_once(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", durability="os") as log:
        for number in range(20):
            log.append_many([b"%d" % (number * 3000 + row) for row in range(3000)])
        expected = rows(log)
    log_at, copy, kept, restored = (str(tmp_path / name) for name in ("log", "copy", "kept", "restored"))
    assert killed_and_finished(tmp_path / "copy", "copy", log_at, copy)["records"] == len(expected)
    said = killed_and_finished(tmp_path / "kept", "backup", "-p", log_at, "--to", kept)
    assert (said["first"], said["stop"]) == (1, len(expected) + 1)
    assert list(verify_backup(kept)) == []
    said = killed_and_finished(tmp_path / "restored", "restore", "--from", kept, "-p", restored)
    assert said["records"] == len(expected)
    for path in (copy, restored):
        with ithaca.open(path, mode="r") as log:
            assert rows(log) == expected


def test_what_cannot_be_is_refused_and_named(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", durability="os") as log, ithaca.open(tmp_path / "other") as other:
        log.append_many([b"a", b"b", b"c"])
        other.append_many([b"x", b"y", b"z", b"v"])
        assert back_up(log, tmp_path / "backup") == Backup(1, 4, 3)
        with pytest.raises(InvalidInput, match="another log"):
            back_up(other, tmp_path / "backup")
        with pytest.raises(InvalidInput, match="holds 4 other records"):
            restore(tmp_path / "backup", other)
        assert restore(tmp_path / "backup", other, renumber=True).added == 3
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "something").touch()
        with pytest.raises(InvalidInput, match="not empty"):
            back_up(log, tmp_path / "full")
        with pytest.raises(NoSuchLog, match="no backup"):
            restore(tmp_path / "full", other)
        log.append_many([b"d", b"e"])
        log.trim(5)
        with pytest.raises(Trimmed, match="begins at 5, and the backup"):
            back_up(log, tmp_path / "backup")
        with pytest.raises(Trimmed, match="copy from 5 on"):
            copy_log(log, other, "log")
        assert copy_log(log, other, "log", start=5).added == 1
        back_up(log, tmp_path / "late")
        with pytest.raises(InvalidInput, match="begins at position 5"):
            restore(tmp_path / "late", other)
    (tmp_path / "backup" / "backup").write_text("ithaca backup 2\n")
    with pytest.raises(FormatTooNew, match="has format 2"):
        list(verify_backup(tmp_path / "backup"))


def test_damage_to_a_backup_is_found_wherever_it_is(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", durability="os") as log:
        fill(log, 3)
        back_up(log, tmp_path / "backup", chunk_bytes=400)
    found = chunks(place_of(tmp_path / "backup"))
    random = Random(1)
    for _ in range(20):
        chunk = random.choice(found)
        data, file = chunk.read(), Path(chunk.file)
        at = random.randrange(len(data))
        file.write_bytes(data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :])
        assert [fault.file for fault in verify_backup(tmp_path / "backup")] == [str(file)]
        file.write_bytes(data[: random.randrange(1, len(data))])
        assert list(verify_backup(tmp_path / "backup"))
        file.write_bytes(data)
    Path(found[1].file).rename(tmp_path / "backup" / "elsewhere")
    (fault,) = verify_backup(tmp_path / "backup")
    assert "are missing" in fault.problem


def test_what_can_be_read_of_a_damaged_log_is_saved_and_the_rest_is_named(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", durability="os") as log:
        for number in range(40):
            log.append(b"record %d " % number + b"x" * 100)
        expected = rows(log)
    (segment,) = (tmp_path / "log").rglob("*.seg")
    data = bytearray(segment.read_bytes())
    at = data.index(b"record 17 ")
    data[at] ^= 1
    segment.write_bytes(data)
    with ithaca.open(tmp_path / "saved", durability="os") as log:
        copied, left_out = salvage(tmp_path / "log", log)
        assert [(each.start, each.stop) for each in left_out] == [(18, 19)]
        assert copied == Copied(39, 39)
        assert [row[1] for row in rows(log)] == [row[1] for row in expected if row[0] != 18]
        assert salvage(tmp_path / "log", log)[0] == Copied(39, 0)


def test_what_was_trimmed_is_not_saved_and_a_sound_log_is_saved_whole(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", durability="os") as log:
        fill(log, 9)
        log.trim(11)
        expected = rows(log)
    with ithaca.open(tmp_path / "saved", durability="os") as log:
        assert salvage(tmp_path / "log", log) == (Copied(len(expected), len(expected)), [])
        assert [row[1:] for row in rows(log)] == [row[1:] for row in expected]
    with ithaca.open(tmp_path / "other") as log, pytest.raises(NoSuchLog, match="no segment"):
        salvage(tmp_path / "nothing", log)


def test_the_commands_keep_move_and_check(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "ithaca", *arguments], capture_output=True, text=True, check=False)

    with ithaca.open(tmp_path / "log") as log:
        log.append_many([b"a", b"b"], keys=[None, b"k"])
        expected = rows(log)
    kept = str(tmp_path / "kept")
    assert run("backup", "-p", str(tmp_path / "log"), "--to", kept).stdout.startswith("positions 1 to 2 are in ")
    assert "sound" in run("verify", "-p", kept).stdout
    assert (
        run("restore", "--from", kept, "-p", str(tmp_path / "again")).stdout == "2 records are there, 2 of them new\n"
    )
    with ithaca.open(tmp_path / "again", mode="r") as log:
        assert rows(log) == expected
    (chunk,) = chunks(place_of(kept))
    Path(chunk.file).write_bytes(chunk.read()[:-1])
    damaged = run("verify", "-p", kept)
    assert damaged.returncode == 3
    assert "ends in the middle of a batch" in damaged.stdout
    for arguments in (["restore", "--from", "nothing", "-p"], ["salvage", "nothing"], ["copy", "nothing"]):
        assert "ithaca: there is no " in run(*arguments, str(tmp_path / "not made")).stderr
        assert not (tmp_path / "not made").exists()
    saved = run("salvage", str(tmp_path / "log"), str(tmp_path / "saved"))
    assert (saved.returncode, saved.stdout) == (0, "2 records are there, 2 of them new\n")
