"""How long a comparison takes, before it begins."""

from collections.abc import Sequence
from typing import Final

from ithaca.bench.compare.workloads import Workload

START_S: Final = 6.0
"""Until a system is up, its packages being there."""
CLIENT_S: Final = 0.8
"""Until one more client is connected, and gone again afterwards."""
WORKLOAD_S: Final = 1.2
"""Of one system in one workload: its first client, and giving up what was written."""
TURN_S: Final = 0.35
"""Of one turn: what others wrote is synced first, and what is in flight at its end is waited for."""
FILL_S: Final = 2.0
"""To write what is read."""


def expected_s(systems: int, workloads: Sequence[Workload], rounds: int, seconds: float, warm_up_s: float) -> float:
    """Seconds in all.

    >>> from ithaca.bench.compare.workloads import WORKLOADS
    >>> expected_s(1, WORKLOADS[:1], 3, 2.0, 1.0)
    16.4
    """
    each = sum(
        WORKLOAD_S
        + CLIENT_S * workload.processes
        + (FILL_S if workload.is_filled else 0)
        + warm_up_s
        + TURN_S
        + rounds * (seconds + TURN_S)
        for workload in workloads
    )
    return round(systems * (START_S + each), 1)


def told(seconds: float) -> str:
    """
    >>> told(1500), told(20)
    ('about 25 minutes', 'about a minute')
    """
    minutes = round(seconds / 60)
    return f"about {minutes} minutes" if minutes > 1 else "about a minute"
