"""What a replica holds on to while many commands pass through it and its state stays as large as it is.

The replica is in a process of its own, proposes and applies, takes snapshots and exchanges checks. Its private memory
(`RssAnon`) is compared between a tenth of the commands and all of them. On the log of a directory the process has the
handle that writes, too.
"""

import gc
from collections import deque
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import ithaca
from ithaca.bench.children import start_child
from ithaca.bench.measure import Progress
from ithaca.bench.memory import private_memory_bytes
from ithaca.bench.objects.place import Address
from ithaca.bench.place import payload
from ithaca.objects import Proposal, Replica, replicate

NAME = "held"
SNAPSHOTS = 20
"""How many are taken in all."""
IN_FLIGHT = 256
ANSWER_TIMEOUT_S = 3600.0


class Register:
    """A state that costs little, so that what is measured is the log and the library."""

    def __init__(self) -> None:
        self.count = 0
        self.value = b""

    def write(self, value: bytes) -> int:
        self.value = value
        self.count += 1
        return self.count


@dataclass(frozen=True, slots=True)
class Held:
    """Private memory of the process after so many commands, and after all."""

    early_commands: int
    early_rss_anon_bytes: int
    commands: int
    rss_anon_bytes: int


def held_by_replica(
    directory: Path, address: Address, commands: int, record_bytes: int, progress: Progress
) -> dict[str, Any]:
    """Of a replica on the cluster of this address; where it is a directory, on a log of its own beside it."""
    progress(f"looking at the memory of a replica while {commands:,} commands pass")
    with ExitStack() as stack:
        found = address if isinstance(address, str) else directory / "held"
        child = start_child(stack, "replica", hold, found, commands, record_bytes)
        held: Held = child.answer(ANSWER_TIMEOUT_S)
    return asdict(held) | {"growth_bytes": held.rss_anon_bytes - held.early_rss_anon_bytes}


def hold(parent: Connection, address: Address, commands: int, record_bytes: int) -> None:
    """The replica's process."""
    with ExitStack() as stack:
        log = stack.enter_context(ithaca.connect(address) if isinstance(address, str) else ithaca.open(address))
        every = max(1, commands // SNAPSHOTS)
        replica = stack.enter_context(replicate(log, Register, name=NAME, snapshots="log", snapshot_commands=every))
        value, early = payload(record_bytes), max(1, commands // 10)
        _propose(replica, value, early)
        early_bytes = _held_bytes()
        _propose(replica, value, commands - early)
        parent.send(Held(early, early_bytes, commands, _held_bytes()))


def _propose(replica: Replica[Register], value: bytes, count: int) -> None:
    under_way: deque[Proposal[int]] = deque()
    for _ in range(count):
        if len(under_way) >= IN_FLIGHT:
            under_way.popleft().result()
        under_way.append(replica.submit(Register.write, value))
    for proposal in under_way:
        proposal.result()


def _held_bytes() -> int:
    gc.collect()
    return private_memory_bytes()
