"""The projection: which units have a row, in which order, in which epoch (§2.2, §2.5 of the paper).

The log is cut into ranges of rows. Within a range rows rotate over *sets*, each a chain of units: the head is written
first, the last is read. The last range is *active* and has no end; all others are closed. A range without sets is
empty: no row of it was ever given away and written, nor will be.

```
rows      0 ──────────── 700 │ 701 ─── 1048575 │ 1048576 ───────────▶
units     (1 2) (3 4)        │ empty           │ (1 2) (3 5)             3 and 4 have rows 1, 3, 5 … 699
```
"""

from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from ithaca.engines.corfu.sequencing.limits import RANGES_MAX, ROW_MAX, ROW_POSITIONS, UNITS_MAX
from ithaca.engines.corfu.sequencing.rows import first_position
from ithaca.model.view import Address

Natural = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
RowNumber = Annotated[int, Meta(ge=0, le=ROW_MAX)]
UnitNumber = Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]
Chain = tuple[UnitNumber, ...]


class UnitMember(msgspec.Struct, frozen=True, array_like=True):
    """A unit. Its directory has drawn the identity: one that lost its disk is another, and has no place here."""

    number: UnitNumber
    address: Address
    identity: UUID


class Range(msgspec.Struct, frozen=True, array_like=True):
    """Rows from `start` to the start of the next range."""

    start: RowNumber
    sets: Annotated[tuple[Chain, ...], Meta(max_length=UNITS_MAX)] = ()

    def chain(self, row: int) -> Chain:
        return self.sets[(row - self.start) % len(self.sets)] if self.sets else ()


class Projection(msgspec.Struct, frozen=True, array_like=True):
    """One epoch's map."""

    epoch: Natural
    ranges: Annotated[tuple[Range, ...], Meta(min_length=1, max_length=RANGES_MAX)]
    units: Annotated[tuple[UnitMember, ...], Meta(max_length=UNITS_MAX)]
    """Those in chains, and spares."""
    sequencer: int
    """The number of the server that hands out rows in this epoch; 0 for none: then clients contend for them."""
    settled: RowNumber = 0
    """Below this row everything was complete, junk or empty when a sequencer began last, and stays so."""
    is_begun: bool = False
    """Whether the sequencer of this epoch has begun. It does so once: started again, it has forgotten what it gave
    away, and needs another epoch. Without a sequencer: whether everything below the active range is settled.
    """

    @property
    def start(self) -> int:
        """The first row of the active range, where the sequencer began."""
        return self.ranges[-1].start

    def range_of(self, row: int) -> Range:
        for each in reversed(self.ranges):
            if row >= each.start:
                return each
        raise AssertionError(f"row {row} is before the first range")

    def chain(self, row: int) -> Chain:
        """The units that have a row, head first; none where the row is empty for ever."""
        return self.range_of(row).chain(row)

    def chains(self) -> frozenset[Chain]:
        """All that hold rows, or may."""
        return frozenset(chain for each in self.ranges for chain in each.sets)

    def stop_of(self, each: Range) -> int | None:
        """The row behind a range; None for the active one."""
        at = self.ranges.index(each) + 1
        return self.ranges[at].start if at < len(self.ranges) else None

    def member(self, number: int) -> UnitMember | None:
        return next((unit for unit in self.units if unit.number == number), None)

    def short_chains(self, sizes: tuple[int, ...]) -> int:
        """How many chains have fewer units than their sets are to have. Sets keep their numbers; more may come."""
        return sum(len(chain) < sizes[number] for each in self.ranges for number, chain in enumerate(each.sets))

    @property
    def start_position(self) -> int:
        return first_position(self.start)


assert first_position(ROW_MAX) + ROW_POSITIONS <= 1 << 63
