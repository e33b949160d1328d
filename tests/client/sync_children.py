"""Programs over the synchronous face that the tests start: `python -m tests.client.sync_children <name> …`."""

import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from tests.client.embedded_twin import SilentIntake, open_sync, open_sync_reader
from tests.embedded.children import ROOT, Child, acknowledge, outcome, say, uses_of
from tests.embedded.numbered import Numbered, encode, encode_batch

from ithaca.client.portal import portal
from ithaca.client.sync.log import SyncLog


@contextmanager
def started(name: str, *arguments: object) -> Iterator[Child]:
    """Start one of the programs below; whatever happens, it is gone afterwards."""
    command = [sys.executable, "-m", "tests.client.sync_children", name, *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


def ended_well(child: Child) -> None:
    """Let it end by itself: with status 0, and without a word of complaint."""
    _, complaints = child.process.communicate(timeout=60)
    assert child.process.returncode == 0, complaints
    assert not complaints, complaints


def interrupted(directory: str, times: str) -> None:
    """Append in the main thread, in all ways, through so many interrupts; then say that it still works."""
    batch, caught = 0, 0
    with open_sync(Path(directory)) as log:
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


def say_when_waiting(begun: threading.Event) -> None:
    """Say "waiting" once the main thread sleeps where it waits for the loop."""
    begun.wait()
    main = threading.main_thread()
    assert main.ident is not None
    state = Path(f"/proc/self/task/{main.native_id}/stat")
    while True:
        name = sys._current_frames()[main.ident].f_code.co_name
        is_asleep = state.read_text().rpartition(")")[2].split()[0] == "S"
        if is_asleep and name in ("wait", "wait_for", "_wait_for"):
            say("waiting")
            return


def interrupted_waits(directory: str) -> None:
    """Wait in every way that waits, until interrupted; then say that nothing was lost."""
    with open_sync(Path(directory)) as log, log.subscribe("earliest") as subscription:
        unanswered = SyncLog(portal(), log._twin, SilentIntake(inflight_bytes_max=0))
        pending = unanswered.submit(b"never answered")
        waits: list[Callable[[], object]] = [
            lambda: next(subscription),
            lambda: subscription.poll(timeout=None),
            lambda: next(subscription.batches()),
            lambda: log.read(1, wait=3600),
            lambda: unanswered.submit(b"no room"),
            lambda: unanswered.flush(),
            lambda: pending.result(),
        ]
        for wait in waits:
            begun = threading.Event()
            watching = threading.Thread(target=say_when_waiting, args=[begun])
            watching.start()
            try:
                begun.set()
                wait()
            except KeyboardInterrupt:
                watching.join()
                say("interrupted")
        log.append_many([b"a", b"b"])
        log.append_many([b"c", b"d"])
        taken = [next(subscription).value, *(record.value for record in subscription.poll(timeout=60, max_records=1))]
        say(
            repr([*taken, *(record.value for batch in islice(subscription.batches(), 1) for record in batch.records())])
        )


def interrupted_iteration(directory: str, count: str) -> None:
    """Read along through interrupts; say each position once it was handed out.

    Ends only when its input does, for then nobody interrupts it any more.
    """
    with open_sync_reader(Path(directory)) as log, log.subscribe("earliest") as subscription:
        position, has_said = 0, False
        while True:
            try:
                while position < int(count):
                    position = next(subscription).position
                    say(str(position))
                if not has_said:
                    say("done")
                    has_said = True
                sys.stdin.readline()
                break
            except KeyboardInterrupt:
                say("interrupted")


def fork(directory: str) -> None:
    """Fork with the log open. The child tries every use, then opens a log of its own; the parent goes on."""
    log = open_sync(Path(directory) / "parent")
    uses = uses_of(log, log.append(b"before the fork").position)
    pending = log.submit(b"submitted before the fork")
    pending.result()
    following = log.subscribe("earliest")
    following.poll(timeout=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on: of forking beside threads, as is tried here
        pid = os.fork()
    if pid == 0:
        say(json.dumps({name: outcome(use) for name, use in uses.items()}))
        say(f"{outcome(following.close)}, {outcome(log.close)}, {pending.result().position}")
        with open_sync(Path(directory) / "child") as own:
            say(f"{own.append(b'by the child').position} {[record.value for record in own.read_range(1)]}")
        sys.exit()
    assert os.waitpid(pid, 0)[1] == 0
    log.append(b"by the parent")
    log.close()
    say("parent closed")


def leave_open(directory: str) -> None:
    """End with a handle, a subscription and appends left open, and a thread that waits."""
    log = open_sync(Path(directory))
    log.append(b"acknowledged")
    subscription = log.subscribe("latest")
    threading.Thread(target=lambda: subscription.poll(timeout=None, max_records=7), daemon=True).start()
    for n in range(1000):
        log.submit(b"%d" % n)
    say("ending")


def callback_that_never_returns(directory: str) -> None:
    """End while a callback holds the loop up."""
    log = open_sync(Path(directory))
    held = threading.Event()

    def hold(_: object) -> None:
        held.set()
        threading.Event().wait()

    log.submit(b"a").add_done_callback(hold)
    held.wait()
    say("ending")


def main() -> None:
    programs: dict[str, Callable[..., None]] = {
        "interrupted": interrupted,
        "interrupted_waits": interrupted_waits,
        "interrupted_iteration": interrupted_iteration,
        "fork": fork,
        "leave_open": leave_open,
        "callback_that_never_returns": callback_that_never_returns,
    }
    programs[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
