"""`ithaca demo embedded`: a producer, two followers, a crash and the recovery, with every claim checked."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import ithaca
from ithaca.apps.demo_cast import Cast, DemoFailed
from ithaca.apps.demo_display import Display
from ithaca.apps.demo_embedded_processes import (
    SESSION_NAME,
    STEADY_RECORDS_PER_S,
    Acknowledged,
    follow,
    produce,
)
from ithaca.apps.demo_follower import Followed
from ithaca.apps.demo_home import demo_home
from ithaca.apps.demo_story import told
from ithaca.apps.running_hash import RunningHash
from ithaca.apps.transactions import transaction
from ithaca.model.records import Record

PRODUCER = "producer"
FOLLOWERS = ("follower 1", "follower 2")
CHECKER = "checker"


def run_embedded_demo(records: int, directory: Path | None, keep: bool) -> bool:
    """Tell the story; True when every claim held."""
    with demo_home(directory, keep) as home:
        display = Display(dict.fromkeys([PRODUCER, *FOLLOWERS, CHECKER], records))
        path = home / "log"
        with Cast() as cast:
            if not told(EmbeddedStory(records, path, display, cast), display):
                return False
        if keep:
            display.say(f"the log is kept; look at it with: ithaca read -p {path} -n 3")
    return True


class EmbeddedStory:
    """The chapters in order, what the processes have said, and the figures at the end."""

    def __init__(self, records: int, path: Path, display: Display, cast: Cast) -> None:
        self._path = path
        self._records = records
        self._steady = records // 2
        self._crash_at = max(1, records * 6 // 10)
        self._display = display
        self._cast = cast
        self._newest: Acknowledged | None = None
        self._endings: dict[str, Followed] = {}
        self._fast_records = 0
        self._fast_s = 0.0
        self._recovery_s = 0.0
        self._value_bytes = 0

    def tell(self) -> None:
        """Everything, until the last check."""
        ithaca.open(self._path).close()  # followers need a log to open
        for name in FOLLOWERS:
            self._cast.start(name, follow, str(self._path), self._records, self._steady)
        self._display.say(f"1. a producer appends {self._records} transactions; two followers read along")
        self._cast.start(PRODUCER, produce, str(self._path), 1, self._records, self._steady)
        self._listen(until=lambda: self._acknowledged >= self._crash_at)
        repeated = self._crash()
        self._recover()
        self._go_on(repeated)
        self._listen(until=lambda: self._acknowledged == self._records and len(self._endings) == len(FOLLOWERS))
        self._check_everything()

    @property
    def _acknowledged(self) -> int:
        return self._newest.last_seq if self._newest else 0

    def _listen(self, until: Callable[[], bool]) -> None:
        messages = self._cast.messages()
        while not until():
            self._hear(*next(messages))

    def _hear(self, name: str, message: Acknowledged | Followed) -> None:
        if isinstance(message, Acknowledged):
            self._newest = message
            self._display.advance(name, message.last_seq)
            return
        self._display.advance(name, message.count)
        if message.digest:
            self._endings[name] = message

    def _crash(self) -> Acknowledged:
        """Kill the producer; what it had been told before counts as acknowledged."""
        for message in self._cast.kill(PRODUCER):
            self._hear(PRODUCER, message)
        assert self._newest is not None, "the producer is killed after its first acknowledgement"
        self._fast_records += self._newest.fast_records
        self._fast_s += self._newest.fast_s
        self._display.say(f"2. kill -9: {self._acknowledged} transactions were acknowledged by then")
        return self._newest

    def _recover(self) -> None:
        started = time.perf_counter()
        log = ithaca.open(self._path)
        self._recovery_s = time.perf_counter() - started
        with log:
            found = log.tail() - 1
            next_seq = log.session(SESSION_NAME).next_seq
        if found < self._acknowledged:
            raise DemoFailed(f"{self._acknowledged} transactions were acknowledged, but only {found} are there")
        if next_seq != found + 1:
            raise DemoFailed(f"the log holds {found} transactions, but its session goes on at {next_seq}")
        self._display.say(
            f"3. opened again in {self._recovery_s * 1e3:.1f} ms: {found} transactions found, "
            "nothing acknowledged was lost"
        )

    def _go_on(self, repeated: Acknowledged) -> None:
        """Start the producer where its own notes end: at its last batch, as if the answer had been missed."""
        self._cast.start(PRODUCER, produce, str(self._path), repeated.first_seq, self._records, 0)
        self._newest = None
        self._listen(until=lambda: self._newest is not None)
        assert self._newest is not None
        before = (repeated.first_seq, repeated.last_seq, repeated.position)
        after = (self._newest.first_seq, self._newest.last_seq, self._newest.position)
        if before != after:
            raise DemoFailed(f"a repeated batch (first, last, position) was {before}, and now is {after}")
        self._display.say(
            f"4. the producer goes on, repeating transactions {repeated.first_seq} to {repeated.last_seq}: "
            "same positions, nothing doubled"
        )

    def _check_everything(self) -> None:
        """Read the log once more, against the transactions themselves and against what followers saw."""
        assert self._newest is not None
        self._fast_records += self._newest.fast_records
        self._fast_s += self._newest.fast_s
        running = RunningHash()
        with ithaca.open(self._path, mode="r") as log:
            if log.tail() != self._records + 1:
                raise DemoFailed(f"{self._records} transactions were sent, and the log holds {log.tail() - 1}")
            for batch in log.read_range(1).batches():
                records = batch.records()
                running.add(records)
                for record in records:
                    self._check(record)
                self._display.advance(CHECKER, records[-1].position)
        for name, ending in self._endings.items():
            if ending.digest != running.hexdigest():
                raise DemoFailed(f"{name} has seen other records, or another order, than the log holds")
        self._display.say("5. both followers saw exactly what the log holds, in the same order")

    def _check(self, record: Record) -> None:
        key, value = transaction(record.position)  # the only producer: its numbers are the positions
        if (record.key, record.value) != (key, value):
            raise DemoFailed(f"position {record.position} holds {record.value!r} instead of {value!r}")
        self._value_bytes += len(value)

    def figures(self) -> list[tuple[str, str]]:
        """What the story measured, as rows of a table."""
        lags_ms = np.concatenate([ending.lags_ms for ending in self._endings.values()])
        p50, p99 = np.percentile(lags_ms, [50, 99])
        return [
            ("records", f"{self._records:,}"),
            ("values", f"{self._value_bytes / 1e6:,.1f} MB"),
            ("appended at full speed, each batch synced", f"{self._fast_records / self._fast_s:,.0f} records/s"),
            (f"follower lag at {STEADY_RECORDS_PER_S:,} records/s, p50", f"{p50:.2f} ms"),
            (f"follower lag at {STEADY_RECORDS_PER_S:,} records/s, p99", f"{p99:.2f} ms"),
            ("recovery after kill -9", f"{self._recovery_s * 1e3:.1f} ms"),
        ]
