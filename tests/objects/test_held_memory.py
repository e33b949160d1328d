"""A replica holds its state, and nothing for each command that has passed."""

import gc
import tracemalloc
from collections import deque
from pathlib import Path

import ithaca
from ithaca.objects import Proposal, Replica, replicate

COMMANDS = 1000
GROWTH_BYTES_MAX = 4 * COMMANDS
"""Less than half a byte for each of the commands that pass between two looks, where an entry of a list has eight."""


class Register:
    """A state that stays as large as it is."""

    def __init__(self) -> None:
        self.value = b""

    def write(self, value: bytes) -> int:
        self.value = value
        return len(value)


def propose(replica: Replica[Register], count: int) -> None:
    under_way: deque[Proposal[int]] = deque()
    for number in range(count):
        if len(under_way) == 100:
            assert under_way.popleft().result() == 100
        under_way.append(replica.submit(Register.write, b"%0100d" % number))
    while under_way:
        assert under_way.popleft().result() == 100


def held_bytes() -> int:
    """Of what was allocated in modules of objects, whoever called them."""
    gc.collect()
    mine = tracemalloc.Filter(True, "*/ithaca/objects/*")
    return sum(each.size for each in tracemalloc.take_snapshot().filter_traces([mine]).traces)


def test_a_replica_keeps_nothing_for_each_command(tmp_path: Path) -> None:
    """With checks and snapshots on, after N commands and after 10 N."""
    with (
        ithaca.open(tmp_path / "log") as log,
        replicate(log, Register, name="it", check_commands=64, snapshots="log", snapshot_commands=500) as replica,
        replicate(log, Register, name="it", check_commands=64) as listener,
    ):
        tracemalloc.start()
        try:
            propose(replica, COMMANDS)
            listener.sync()
            early = held_bytes()
            propose(replica, 9 * COMMANDS)
            listener.sync()
            growth = held_bytes() - early
        finally:
            tracemalloc.stop()
        assert growth < GROWTH_BYTES_MAX, f"{growth / (9 * COMMANDS):.1f} bytes more for each command"
        assert not replica._answers
        assert not replica._waiting
        assert not listener._waiting
