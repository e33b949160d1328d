"""Programs that the tests start as processes of their own: `python -m tests.embedded.children <name> …`.

They report on standard output, a line at a time, and end when standard input does unless told otherwise.
"""

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from tests.embedded.numbered import Numbered, encode, encode_batch

import ithaca
from ithaca.model.interface import Log, Pending
from ithaca.model.records import Receipt

ROOT = Path(__file__).parents[2]
SUBMITS_IN_FLIGHT = 16


class Child:
    """A started program."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin = process.stdin
        self.stdout = process.stdout

    def line(self) -> str:
        """The next line it says; empty once it has ended."""
        return self.stdout.readline().rstrip("\n")

    def expect(self, text: str) -> None:
        """The next line, which must be this."""
        line = self.line()
        assert line == text, f"the child said {line!r}, not {text!r}"

    def finish(self) -> None:
        """Let it end by itself, and see that it ended well."""
        self.stdin.close()
        assert self.process.wait(60) == 0


@contextmanager
def started(name: str, *arguments: object, **environment: str) -> Iterator[Child]:
    """Start one of the programs below; whatever happens, it is gone afterwards."""
    command = [sys.executable, "-m", "tests.embedded.children", name, *map(str, arguments)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


def say(line: str) -> None:
    """One write, so that lines of several threads never mix."""
    os.write(1, line.encode() + b"\n")


def acknowledge(writer: int, batch: int, receipt: Receipt) -> None:
    say(f"{writer} {batch} {receipt.position} {receipt.count}")


def append_singles(log: Log, writer: int) -> None:
    for batch in range(1, 1 << 30):
        acknowledge(writer, batch, log.append(encode(Numbered(writer, batch, 0, 1))))


def append_batches(log: Log, writer: int) -> None:
    for batch in range(1, 1 << 30):
        acknowledge(writer, batch, log.append_many(encode_batch(writer, batch, 1 + batch % 7)))


def submit_records(log: Log, writer: int) -> None:
    """Singles and batches with several in flight, each reported once it has its receipt."""
    flying: deque[tuple[int, Pending]] = deque()
    for batch in range(1, 1 << 30):
        if batch % 3:
            flying.append((batch, log.submit(encode(Numbered(writer, batch, 0, 1)))))
        else:
            flying.append((batch, log.submit_many(encode_batch(writer, batch, 5))))
        if len(flying) > SUBMITS_IN_FLIGHT:
            oldest, pending = flying.popleft()
            acknowledge(writer, oldest, pending.result())


def append_in_session(log: Log, writer: int) -> None:
    """One session for all rounds, which numbers the batches: a crash repeats or skips none."""
    session = log.session("numbered")
    while True:
        batch = session.next_seq
        acknowledge(writer, batch, session.append(encode(Numbered(writer, batch, 0, 1)), seq=batch))


def writer(directory: str, round_number: str) -> None:
    """Append in all ways at once until killed; the session is writer 0, the others are new in each round."""
    say("opening")
    log = ithaca.open(directory)
    say("open")
    ways: list[Callable[[Log, int], None]] = [append_singles, append_batches, submit_records]
    threads = [threading.Thread(target=way, args=(log, 10 * int(round_number) + n)) for n, way in enumerate(ways, 1)]
    threads.append(threading.Thread(target=append_in_session, args=(log, 0)))
    for thread in threads:
        thread.start()


def interrupted(directory: str, times: str) -> None:
    """Append in the main thread, in all ways, through so many interrupts; then say that it still works."""
    batch, caught = 0, 0
    with ithaca.open(directory) as log:
        say("open")
        while caught < int(times):
            try:
                while True:
                    batch += 1
                    if batch % 3 == 0:
                        receipt = log.append(encode(Numbered(1, batch, 0, 1)))
                    elif batch % 3 == 1:
                        receipt = log.append_many(encode_batch(1, batch, 4))
                    else:
                        receipt = log.submit_many(encode_batch(1, batch, 2)).result()
                    acknowledge(1, batch, receipt)
            except KeyboardInterrupt:
                caught += 1
                say("interrupted")
        batch += 1
        acknowledge(1, batch, log.append(encode(Numbered(1, batch, 0, 1))))
    say("closed")


def hold(directory: str, mode: str = "a") -> None:
    """Keep the log open until standard input ends."""
    assert mode in ("a", "r")
    with ithaca.open(directory, mode="a" if mode == "a" else "r") as log:
        say(f"open {os.getpid()} {log.tail()}")
        sys.stdin.read()
    say("closed")


def follow(directory: str, start: str, count: str) -> None:
    """Print what a read-only subscription delivers."""
    with ithaca.open(directory, mode="r") as log, log.subscribe(int(start)) as subscription:
        say("following")
        for _ in range(int(count)):
            record = next(subscription)
            say(f"{record.position} {record.value.decode()}")


def uses_of(log: Log, position: int) -> dict[str, Callable[[], object]]:
    """Everything one can do with a handle."""
    session = log.session("forked")
    records, subscription = log.read_range(position), log.subscribe(position)
    return {
        "append": lambda: log.append(b"x"),
        "append_many": lambda: log.append_many([b"x"]),
        "submit": lambda: log.submit(b"x"),
        "submit_many": lambda: log.submit_many([b"x"]),
        "flush": lambda: log.flush(),
        "read": lambda: log.read(position),
        "read_range": lambda: list(log.read_range(position)),
        "subscribe": lambda: log.subscribe("earliest").poll(),
        "first": lambda: log.first(),
        "tail": lambda: log.tail(),
        "trim": lambda: log.trim(position),
        "session": lambda: log.session("other"),
        "session.append": lambda: session.append(b"x"),
        "next(records)": lambda: next(records),
        "next(subscription)": lambda: next(subscription),
        "subscription.poll": lambda: subscription.poll(timeout=1),
    }


def outcome(use: Callable[[], object]) -> str:
    try:
        use()
    except Exception as error:
        return type(error).__name__
    return "no error"


def fork(directory: str) -> None:
    """Fork with the log open. The child tries every use and stays; the parent goes on, and closes.

    Standard input is the parent's alone: what is said to it must not come to the child.
    """
    child_reads, parent_writes = os.pipe()
    log = ithaca.open(directory)
    uses = uses_of(log, log.append(b"before the fork").position)
    pid = os.fork()
    if pid == 0:
        os.close(parent_writes)
        live_on_as_the_forked_child(log, uses, child_reads)
    sys.stdin.readline()  # the test has seen the child's report
    log.append(b"by the parent")
    log.close()
    say("parent closed")
    sys.stdin.read()
    os.close(parent_writes)
    assert os.waitpid(pid, 0)[1] == 0


def live_on_as_the_forked_child(log: Log, uses: dict[str, Callable[[], object]], until: int) -> NoReturn:
    """Until the pipe that this reads from is closed at its other end."""
    say(json.dumps({name: outcome(use) for name, use in uses.items()}))
    say(outcome(log.close))
    os.read(until, 1)
    os._exit(0)


def main() -> None:
    programs: dict[str, Callable[..., None]] = {
        "writer": writer,
        "interrupted": interrupted,
        "hold": hold,
        "follow": follow,
        "fork": fork,
    }
    programs[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
