"""What a process takes from its machine, and how a simulator puts another in its place."""

import subprocess
import sys
import time
from random import Random
from uuid import UUID

from ithaca.runtime import machine


class _Still(machine.Machine):
    """A machine on which nothing moves."""

    def __init__(self) -> None:
        self.random = Random(7)

    def wall_us(self) -> int:
        return 11

    def monotonic_ns(self) -> int:
        return 2_500_000_000

    def new_uuid(self) -> UUID:
        return UUID(int=13)

    def process_id(self) -> int:
        return 17


def test_everything_is_asked_of_the_machine_in_use() -> None:
    still = _Still()
    before = machine.use(still)
    try:
        assert machine.current() is still
        assert (machine.wall_us(), machine.monotonic_ns(), machine.monotonic_s()) == (11, 2_500_000_000, 2.5)
        assert (machine.new_uuid(), machine.process_id()) == (UUID(int=13), 17)
        assert machine.rng().random() == Random(7).random()
    finally:
        assert machine.use(before) is still
    assert machine.current() is before


def test_the_real_machine_has_the_time_of_day_and_a_clock_that_never_goes_back() -> None:
    low_us = time.time_ns() // 1000
    now_us = machine.wall_us()
    assert low_us <= now_us <= time.time_ns() // 1000
    readings = [machine.monotonic_ns() for _ in range(100)]
    assert readings == sorted(readings)
    assert machine.new_uuid() != machine.new_uuid()


_FORKING = """
import os
from ithaca.runtime import machine
machine.rng().random()
for _ in range(2):
    if os.fork() == 0:
        print(machine.rng().getrandbits(64), flush=True)
        os._exit(0)
    os.wait()
"""


def test_forked_processes_do_not_share_their_chance() -> None:
    drawn = subprocess.run([sys.executable, "-c", _FORKING], capture_output=True, check=True).stdout.split()
    assert len(set(drawn)) == 2
