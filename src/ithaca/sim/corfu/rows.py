"""What all units of a world have together, as they have told their servers: row by row, and unit by unit."""

from uuid import UUID

from ithaca.engines.corfu.sequencing.entries import Stamp
from ithaca.engines.corfu.sequencing.projection import Projection
from ithaca.engines.corfu.sequencing.trims import Trims
from ithaca.engines.corfu.sequencing.unit import Change, CopiedChange, EpochChange, RowChange, TrimChange
from ithaca.sim.violation import Violation


class UnitRows:
    """One unit's disk: what was synced there."""

    def __init__(self) -> None:
        self.rows: dict[int, Stamp | None] = {}
        """What each row holds; None for junk."""
        self.trims = Trims()
        self.epoch = (0, True)
        """And whether that is sealed."""


class AllRows:
    """Every disk that ever was a unit's, by its identity, and what is known of each row."""

    def __init__(self) -> None:
        self.units: dict[UUID, UnitRows] = {}
        self.complete: dict[int, Stamp | None] = {}
        """Rows that were once on a whole chain: what they hold for ever."""
        self._batches: dict[tuple[int, int], int] = {}
        """Where each batch of a session is: its producer and number."""
        self.new_complete: list[int] = []
        """Rows that became complete since somebody looked."""

    def unit(self, identity: UUID) -> UnitRows:
        return self.units.setdefault(identity, UnitRows())

    def noted(self, identity: UUID, change: Change, projection: Projection | None) -> None:
        """A unit has synced a change."""
        unit = self.unit(identity)
        if isinstance(change, TrimChange):
            unit.trims.apply(change.low, change.high, change.before)
        elif isinstance(change, CopiedChange):
            unit.trims.take(change.copied.below, change.copied.ranges, change.copied.first)
        elif isinstance(change, EpochChange):
            unit.epoch = max(unit.epoch, (change.epoch, change.is_sealed))
        elif isinstance(change, RowChange):
            stamp = change.entry.stamp
            if change.row in unit.trims and change.row not in unit.rows:
                raise Violation("trimmed", f"row {change.row} is written, and was trimmed before")
            if unit.rows.get(change.row, stamp) != stamp:
                raise Violation("write-once", f"row {change.row} is written again: {unit.rows[change.row]}, {stamp}")
            unit.rows[change.row] = stamp
            if projection is not None:
                self.check_row(projection, change.row)

    def chain(self, projection: Projection, row: int) -> list[UnitRows]:
        """The disks that have a row, head first."""
        members = [projection.member(number) for number in projection.chain(row)]
        return [self.unit(member.identity) for member in members if member is not None]

    def check_row(self, projection: Projection, row: int) -> None:
        """Rules 1, 2, 6 and 7 of this row, by the units that have it now."""
        chain = self.chain(projection, row)
        if not chain or any(row in unit.trims for unit in chain):
            return
        has = [row in unit.rows for unit in chain]
        if any(has) and not has[0]:
            raise Violation("head-first", f"the head of row {row} lacks what a later unit of its chain has")
        held = {unit.rows[row] for unit in chain if row in unit.rows}
        if len(held) > 1:
            raise Violation("one-winner", f"the chain of row {row} holds {held}")
        if all(has):
            self._completed(row, held.pop())

    def _completed(self, row: int, stamp: Stamp | None) -> None:
        if row in self.complete:
            if self.complete[row] != stamp:
                raise Violation("complete-for-ever", f"row {row} was {self.complete[row]}, and is {stamp} now")
            return
        self.complete[row] = stamp
        self.new_complete.append(row)
        if stamp is not None:
            other = self._batches.setdefault((stamp.producer, stamp.first_seq), row)
            if other != row:
                raise Violation("exactly-once", f"{stamp} is in the rows {other} and {row}")

    def check_projection(self, projection: Projection, trimmed: int) -> None:
        """An epoch has begun: what was complete is so on its units, or was trimmed there, or lies before this row."""
        for row, stamp in self.complete.items():
            for unit in self.chain(projection, row):
                if row not in unit.trims and (row not in unit.rows or unit.rows[row] != stamp):
                    raise Violation("complete-for-ever", f"row {row} was {stamp}, and a unit of it has something else")
            if not projection.chain(row) and row >= trimmed:
                raise Violation("complete-for-ever", f"row {row} was {stamp}, and is empty by the projection now")

    def check_settled(self, projection: Projection) -> None:
        """An epoch's rows are handed out, or contended for: what precedes them is settled."""
        for each in projection.ranges[:-1]:
            for row in range(each.start, projection.stop_of(each) or 0) if each.sets else ():
                if not self.is_settled(projection, row):
                    raise Violation("settled", f"epoch {projection.epoch} has begun, and row {row} is open")

    def is_complete(self, projection: Projection, row: int) -> bool:
        """Whether a row is, or was, on its whole chain, is empty, or was trimmed."""
        chain = self.chain(projection, row)
        return row in self.complete or all(row in unit.rows or row in unit.trims for unit in chain)

    def is_settled(self, projection: Projection, row: int) -> bool:
        """Whether every unit of its chain has it now, or has trimmed it."""
        return all(row in unit.rows or row in unit.trims for unit in self.chain(projection, row))
