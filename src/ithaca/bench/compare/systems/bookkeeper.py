"""Apache BookKeeper: two bookies and a ZooKeeper, every entry synced by both journals, through its Java client."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

import numpy as np

from ithaca.bench.cluster.producers import Counted, Turn
from ithaca.bench.compare.open_loop import Pace
from ithaca.bench.compare.system import Running, System
from ithaca.bench.compare.work import Appended, Client, Fill, Filled, Read, ReadAll, ReadSome, Role
from ithaca.bench.foreign import foreign_server, run_tool
from ithaca.bench.measure import Progress
from ithaca.cluster.ports import LOOPBACK, free_ports
from ithaca.model.errors import Unavailable

VERSION: Final = "4.17.2"
PACKAGES: Final = (
    ("org.apache.bookkeeper", "bookkeeper-server", VERSION),
    ("io.dropwizard.metrics", "metrics-core", "4.2.30"),  # ZooKeeper needs these two, and does not say so
    ("org.xerial.snappy", "snappy-java", "1.1.10.7"),
)
BOOKIES: Final = 2
FETCH_TIMEOUT_S: Final = 900.0
SPACE: Final = {
    "journalMaxSizeMB": 512,
    "journalMaxBackups": 0,
    "logSizeLimit": 256 << 20,
    "gcWaitTime": 10_000,
}
"""So that files of ledgers that were deleted are gone before the disk is full: the defaults keep gigabytes."""
NOT_TOLD: Final = "a ledger has no subscription: readers ask for its last entry again and again"


class BookKeeperClient(Client):
    """A process of Java that is asked by lines; it appends and reads by itself, as its users' programs do."""

    def __init__(self, java: str, classes: str, metadata: str, role: Role) -> None:
        with as_file(files(__package__) / "BookKeeperClient.java") as source:
            self._process = subprocess.Popen(
                [java, "-Xmx512m", "-cp", classes, os.fspath(source), metadata],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            while (line := self._line()) != "ready":  # its loggers print where it answers
                if not line:
                    raise Unavailable(f"the client of BookKeeper ended with status {self._process.wait()}")

    def append(self, turn: Turn, values: list[list[bytes]]) -> Appended:
        plan = turn.plan
        entry_bytes = plan.batch * plan.record_bytes
        counted = self._counted(turn, "append", entry_bytes, plan.window, _ns(turn.start_s), _ns(turn.stop_s))
        return Appended.whole(turn, counted)

    def pace(self, pace: Pace, values: list[list[bytes]]) -> Counted:
        turn = pace.turn
        entry_bytes = turn.plan.batch * turn.plan.record_bytes
        return self._counted(turn, "pace", entry_bytes, pace.batches_per_s, _ns(turn.start_s), _ns(turn.stop_s))

    def fill(self, fill: Fill, values: list[list[bytes]]) -> Filled:
        """Records of a batch are one entry, so single ones are read from entries of one."""
        entries = -(-fill.records // fill.batch)
        ledger = int(self._ask("fill", fill.batch * fill.record_bytes, entries)[0])
        return Filled(entries * fill.batch, fill.record_bytes, (ledger, entries), ())

    def read(self, request: ReadAll | ReadSome) -> Read:
        """Reads run in Java, and their clocks, too."""
        ledger, entries = request.filled.start
        batch = request.filled.records // entries
        if isinstance(request, ReadAll):
            start, end = self._ask("all", ledger, entries, _ns(request.start_s))
            return Read(entries * batch, int(start) / 1e9, int(end) / 1e9)
        words = self._ask("some", ledger, entries, _ns(request.start_s), _ns(request.stop_s), request.seed)
        durations = _seconds(words[2:])
        return Read(len(durations), int(words[0]) / 1e9, int(words[1]) / 1e9, durations.tobytes())

    def read_all(self, filled: Filled) -> int:
        raise AssertionError("reads run in Java")

    def read_one(self, filled: Filled, place: Any) -> int:
        raise AssertionError("reads run in Java")

    def clear(self) -> None:
        """Delete all ledgers; bookies remove the files in which nothing else is."""
        self._ask("clear")

    @property
    def pids(self) -> Sequence[int]:
        return [self._process.pid]

    def close(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it ended before, with what it was asked last
            self._process.stdin.close()
        self._process.wait()

    def _counted(self, turn: Turn, *words: object) -> Counted:
        return Counted(_seconds(self._ask(*words)).tobytes(), turn.stop_s)

    def _ask(self, *words: object) -> list[str]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Unavailable(f"the client of BookKeeper ended with status {self._process.wait()}") from None
        while line := self._line():
            verdict, *answer = line.split()
            if verdict == "ok":
                return answer
            if verdict == "failed":
                raise Unavailable(f"BookKeeper: {line.removeprefix('failed ')}")
        raise Unavailable(f"the client of BookKeeper ended with status {self._process.wait()}")

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _seconds(words: Sequence[str]) -> "np.ndarray[Any, np.dtype[np.float64]]":
    return np.asarray(words, dtype=np.float64) / 1e9


class BookKeeper(System):
    """Two bookies, each a process of its own; ensemble, write quorum and acknowledge quorum of two."""

    name = "bookkeeper"
    order = "per ledger, which one client writes"
    acknowledged = "synced to the journals of both bookies"

    @contextmanager
    def run(self, directory: Path, progress: Progress) -> Iterator[Running]:
        progress("fetching BookKeeper, from Maven Central unless it was before")
        java, classes = fetched()
        progress("starting two bookies and a ZooKeeper")
        directory.mkdir(mode=0o700, parents=True)
        zookeeper, *ports = free_ports(1 + BOOKIES)
        metadata = f"zk+hierarchical://{LOOPBACK}:{zookeeper}/ledgers"
        with ExitStack() as stack:

            def start(name: str, port: int, *words: str | Path) -> int:
                command = [java, "-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-cp", classes, *words]
                output = directory / f"{name}.txt"
                return stack.enter_context(foreign_server(name, command, output, port)).pid

            main = "org.apache.zookeeper.server.ZooKeeperServerMain"
            pids = [start("ZooKeeper", zookeeper, main, str(zookeeper), directory / "zookeeper")]
            for number, port in enumerate(ports):
                file = directory / f"{number}.conf"
                file.write_text(configuration(directory / str(number), port, metadata))
                if number == 0:
                    shell = [java, "-cp", classes, "org.apache.bookkeeper.bookie.BookieShell", "-conf", str(file)]
                    output = directory / "shell.txt"
                    run_tool("BookKeeper's shell", "prepare a cluster", [*shell, "initnewcluster"], output)
                pids.append(start("a bookie", port, "org.apache.bookkeeper.server.Main", "--conf", file))
            settings = {
                "ensemble, write and ack quorum": str(BOOKIES),
                "journalSyncData": "true, the default",
                "digest": "CRC32C",
                "batches": "one entry each",
                **{name: str(value) for name, value in SPACE.items()},
                "client": "Java",
            }
            connect = partial(BookKeeperClient, java, classes, metadata)
            yield Running(connect, lambda: pids, VERSION, settings, cannot_follow=NOT_TOLD)


def configuration(directory: Path, port: int, metadata: str) -> str:
    """A bookie's file; whatever is not named here is BookKeeper's default."""
    settings = {
        "bookiePort": port,
        "allowLoopback": "true",
        "advertisedAddress": LOOPBACK,
        "journalDirectories": directory / "journal",
        "ledgerDirectories": directory / "ledgers",
        "metadataServiceUri": metadata,
        "nettyMaxFrameSizeBytes": 64 << 20,
        "httpServerEnabled": "false",
        **SPACE,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def fetched() -> tuple[str, str]:
    """Java, and the class path. Some artifacts have an ending that Spark's resolver does not fetch, so Maven does."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None or maven is None:
        missing = "Java" if java is None else "Maven"
        raise Unavailable(f"BookKeeper needs {missing}, which is not installed: install it with your package manager")
    place = (
        Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "ithaca" / "bench" / f"bookkeeper-{VERSION}"
    )
    if not (place / "fetched").exists():
        place.mkdir(parents=True, exist_ok=True)
        (place / "pom.xml").write_text(_project())
        command = [maven, "-q", "-B", "-f", str(place / "pom.xml"), "dependency:copy-dependencies"]
        command.append(f"-DoutputDirectory={place / 'jars'}")
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"Maven did not fetch BookKeeper within {FETCH_TIMEOUT_S:.0f} s") from None
        if done.returncode != 0:
            raise Unavailable("Maven could not fetch BookKeeper: " + " | ".join(done.stdout.splitlines()[-3:]))
        (place / "fetched").touch()
    return java, str(place / "jars" / "*")


def _project() -> str:
    needed = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in PACKAGES
    )
    own = "<groupId>ithaca</groupId><artifactId>compare</artifactId><version>1</version>"
    return f"<project><modelVersion>4.0.0</modelVersion>{own}<dependencies>{needed}</dependencies></project>"
