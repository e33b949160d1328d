"""What both trees are asked to do."""

from dataclasses import dataclass
from typing import Literal

from ithaca.bench.bare import CeilingSettings
from ithaca.model.limits import MIB

Kind = Literal["append", "range", "point"]


@dataclass(frozen=True, slots=True)
class Workload:
    """An operation is one call: of a batch of records, of the range's records by thousands, or of one record.

    `window` operations are in flight. A batch of one is appended by `submit`, or by `append` where nothing else is in
    flight.
    """

    name: str
    kind: Kind
    record_bytes: int
    batch: int
    window: int

    def ceiling(self, seconds: float, file_bytes: int) -> CeilingSettings | None:
        """The same bytes for two bare servers; None where that is no comparison."""
        if self.kind != "append" or self.window > CEILING_WINDOW_MAX:
            return None
        return CeilingSettings(
            self.record_bytes, self.batch, seconds, replicas=2, window=self.window, file_bytes=file_bytes
        )


CEILING_WINDOW_MAX = 64
"""Bare servers sync each call by itself: with more in flight a log would be compared with something else."""

WORKLOADS = {
    each.name: each
    for each in (
        Workload("batches", "append", 4096, 64, 16),
        Workload("small", "append", 100, 1000, 16),
        Workload("single", "append", 100, 1, 4096),
        Workload("lone", "append", 4096, 1, 1),
        Workload("large", "append", MIB, 1, 8),
        Workload("range", "range", 4096, 1000, 1),
        Workload("point", "point", 100, 100, 1),
    )
}
