"""Claims: said when they hold, `DemoFailed` with the first difference when they do not."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.pipelines.events import Event, source_of
from ithaca.model.records import Record

_NOTHING = "nothing"


class Claims:
    """What a pipeline has shown so far."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.held: list[str] = []

    def same(self, claim: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
        """Both must be equal, row by row.

        >>> Claims(print).same("sums agree", [(1, 2), (3, 5)], [(1, 2), (3, 4)])
        Traceback (most recent call last):
        ithaca.apps.demo_cast.DemoFailed: sums agree: row 2 is (3, 5), and plain Python has (3, 4)
        """
        for number, (one, other) in enumerate(zip_longest(found, expected, fillvalue=_NOTHING), 1):
            if one != other:
                raise DemoFailed(f"{claim}: row {number} is {one}, and plain Python has {other}")
        self.hold(claim)

    def hold(self, claim: str) -> None:
        """Note a claim that was checked."""
        self.held.append(claim)
        self._say(f"   checked: {claim}")

    def log_holds(self, records: Iterable[Record], sources: Mapping[int, Iterator[Event]]) -> None:
        """The log has what the sources made and nothing else: once each, in each source's order."""
        count = 0
        for record in records:
            count += 1
            made = next(sources.get(source_of(record.value), iter(())), None)
            if made != (record.key, record.value):
                raise DemoFailed(f"position {record.position} holds {record.value!r}, where {made} must come")
        for source, left in sources.items():
            missing = next(left, None)
            if missing is not None:
                raise DemoFailed(f"the log has nothing of source {source} from {missing[1]!r} on")
        self.hold(f"the log has all {count:,} records that were made, once each, in their sources' order")
