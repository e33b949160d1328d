"""What processes have cost so far, by the kernel's count."""

import os
from collections.abc import Sequence
from pathlib import Path


def cpu_s(pids: Sequence[int]) -> float:
    """CPU seconds that the processes have used so far, in user and kernel mode."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def written_bytes(pids: Sequence[int]) -> int:
    """What the processes have had the kernel write to disks so far."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            name, _, count = line.partition(": ")
            if name == "write_bytes":
                total += int(count)
    return total
