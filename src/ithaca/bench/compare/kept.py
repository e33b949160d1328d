"""What was measured, kept in a file of lines: one for each workload and the systems that took their turns in it.

A run that is started again measures what is not there yet. Where systems were not there before, they take their turns
with the reference, so that ratios are formed within rounds as always.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from ithaca.bench.compare.workloads import PACE_AFTER

RESULTS: Final = "results.jsonl"
PACE_DEFAULT: Final = 100.0


@dataclass(frozen=True, slots=True)
class CompareSettings:
    seconds: float = 2.0
    rounds: int = 3
    warm_up_s: float = 2.0


class Kept:
    """All lines with the same settings, and those that are added."""

    def __init__(self, directory: Path, settings: CompareSettings) -> None:
        self._file = directory / RESULTS
        self._lines: list[dict[str, Any]] = []
        wanted = asdict(settings)
        if self._file.exists():
            found = [msgspec.json.decode(line) for line in self._file.read_bytes().splitlines()]
            self._lines = [each for each in found if wanted.items() <= each["settings"].items()]

    def add(self, line: dict[str, Any]) -> None:
        self._lines.append(line)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as stream:
            stream.write(msgspec.json.encode(line) + b"\n")

    def of(self, workload: str) -> list[dict[str, Any]]:
        """The lines of a workload, oldest first."""
        return [line for line in self._lines if line["workload"]["name"] == workload]

    def measured(self, workload: str) -> set[str]:
        """Systems whose outcome in the workload is known, a failure included."""
        return {name for line in self.of(workload) for name in line["systems"]}

    def pace(self, workload: str) -> float:
        """Batches a second of the open loops: as before, where the workload was measured with other systems already;
        else a third of what the slowest system did that syncs to two disks; 100 where none was measured.
        """
        before = [line["batches_per_s"] for line in self.of(workload)]
        if before:
            return float(before[0])
        rates = [
            median(each["records_per_s"] for each in found["rounds"])
            for line in self.of(PACE_AFTER)
            for name, found in line["systems"].items()
            if "rounds" in found and _is_synced_twice(line["about"][name])
        ]
        return min(rates) / 3 if rates else PACE_DEFAULT

    def about(self, names: Iterable[str]) -> dict[str, Any]:
        """What was told of systems last when they were measured."""
        wanted = set(names)
        return {name: told for line in self._lines for name, told in line["about"].items() if name in wanted}


def missing(kept: Kept, workloads: Sequence[str], systems: Sequence[str]) -> dict[str, list[str]]:
    """For each workload that is not finished the systems that it lacks."""
    lacking = {each: [name for name in systems if name not in kept.measured(each)] for each in workloads}
    return {each: names for each, names in lacking.items() if names}


def _is_synced_twice(about: dict[str, Any]) -> bool:
    return bool(about["durable"] == "synced" and about["copies"] > 1)
